// Counts what ours asks of the runtime, from outside: the objects' methods, their storage, and each call from WebAssembly to
// JavaScript. It must be imported before what instantiates the WebAssembly.
//
// Time stands still here, so that no count depends on how fast the machine is. An alarm rings when `ring` says so, and the clock is then at what
// it was set for. A timer ends when `pass` says so: most are to give up what is late, and here nothing is late.

/** By the class of an object. */
const objects = {};
/** The size of each object's database, by class and id. */
const sizes = {};
let crossings = 0;

/** How many handlers and methods run, and calls of theirs that wait for others. */
let underWay = 0;
/** The alarms that are set, by the ids of their objects: of which class each is, and for when it is set. */
const alarms = new Map();
/** The timers that run, by their numbers: for how long, in ms, and whether they are to end. */
const timers = new Map();

const real = { Date, setTimeout, clearTimeout };
const YEAR_MS = 365 * 86_400_000;

// Two steps in the same millisecond write less than two in different ones, by chance. So here each look at the clock is later.
let clockMs = Date.now();
const now = () => (clockMs += 1);
globalThis.Date = class extends real.Date {
  constructor(...given) {
    super(...(given.length > 0 ? given : [now()]));
  }
  static now = now;
};

let timersMade = 0;
/** How often a timer looks whether it is to end. Only what has set it may call what it calls. */
const LOOK_MS = 20;
globalThis.setTimeout = (call, ms, ...given) => {
  if (!(ms > 0)) return real.setTimeout(call, 0, ...given);
  timersMade -= 1;
  const [number, timer] = [timersMade, { ms, ends: false }];
  timers.set(number, timer);
  const look = () => {
    if (!timer.ends) timer.look = real.setTimeout(look, LOOK_MS);
    else if (timers.delete(number)) {
      call(...given);
      underWay -= 1;
    }
  };
  look();
  return number;
};
globalThis.clearTimeout = (number) => {
  const timer = timers.get(number);
  timers.delete(number);
  real.clearTimeout(timer ? timer.look : number);
};

/** Ends the timers that run. */
export function pass() {
  for (const timer of timers.values()) {
    clockMs += timer.ms;
    timer.ends = true;
    underWay += 1;
  }
}

/** Makes a call. Until it ends it is under way. */
export function watched(call) {
  underWay += 1;
  const end = () => (underWay -= 1);
  let made;
  try {
    made = call();
  } catch (error) {
    end();
    throw error;
  }
  if (typeof made?.then === 'function') made.then(end, end);
  else end();
  return made;
}

/** What a method of the runtime's does is under way, also when no handler of ours waits for it. */
function watchMethod(owner, method) {
  const call = owner[method];
  owner[method] = function (...given) {
    return watched(() => call.apply(this, given));
  };
}

watchMethod(globalThis, 'fetch');

/** By which the bindings of an environment call others. D1's does it by the `fetch` of services. */
const CALLS = ['fetch', 'send', 'sendBatch'];
const watchedKinds = new Set();

function watchBindings(env) {
  for (const binding of Object.values(env).filter((binding) => typeof binding === 'object')) {
    const kind = Object.getPrototypeOf(binding);
    if (watchedKinds.has(kind)) continue;
    watchedKinds.add(kind);
    for (const method of CALLS) if (typeof kind[method] === 'function') watchMethod(kind, method);
  }
}

const Instance = WebAssembly.Instance;
WebAssembly.Instance = function (module, imports) {
  const watched = Object.entries(imports).map(([name, part]) => [name, watchedImports(part)]);
  return new Instance(module, Object.fromEntries(watched));
};

const watchedImports = (part) =>
  Object.fromEntries(
    Object.entries(part).map(([name, one]) => [name, typeof one === 'function' ? crossing(one) : one]),
  );

function crossing(call) {
  return (...given) => {
    crossings += 1;
    return call(...given);
  };
}

/** The class of an object, counted under its name. */
export function counted(Class, name) {
  const counts = (objects[name] = { requests: 0, alarms: 0, statements: 0, rows_written: 0 });
  const ofClass = (sizes[name] = {});
  class Counted extends Class {
    #ring;

    constructor(ctx, env) {
      watchBindings(env);
      const { setAlarm } = watchStorage(ctx, name, counts, ofClass);
      super(ctx, env);
      this.#ring = () => setAlarm(real.Date.now());
    }

    /** The runtime calls `alarm` then. */
    benchRing() {
      return this.#ring();
    }

    /** As after some seconds in which nobody has asked it. */
    benchEvict() {
      this.ctx.abort('evicted');
    }
  }
  for (const method of methodsOf(Class))
    Counted.prototype[method] = function (...given) {
      counts.requests += 1;
      return watched(() => Class.prototype[method].apply(this, given));
    };
  const { alarm } = Counted.prototype;
  Counted.prototype.alarm = function (...given) {
    const rung = alarm.apply(this, given);
    // Until here it was under way as one that is to ring.
    underWay -= 1;
    return rung;
  };
  return Counted;
}

/** Those of its own and of the classes between it and the runtime's. */
function methodsOf(Class) {
  const names = new Set();
  for (
    let proto = Class.prototype;
    Object.getPrototypeOf(proto) !== Object.prototype;
    proto = Object.getPrototypeOf(proto)
  )
    for (const name of Object.getOwnPropertyNames(proto))
      if (name !== 'constructor' && typeof proto[name] === 'function') names.add(name);
  return names;
}

function watchStorage(ctx, name, counts, sizesOfClass) {
  const { storage } = ctx;
  const { sql } = storage;
  const id = `${ctx.id}`;
  const exec = sql.exec.bind(sql);
  sql.exec = (...given) => {
    const cursor = exec(...given);
    counts.statements += 1;
    // When its rows were read: ours reads them at once.
    queueMicrotask(() => {
      counts.rows_written += cursor.rowsWritten;
      sizesOfClass[id] = sql.databaseSize;
    });
    return cursor;
  };
  const setAlarm = storage.setAlarm.bind(storage);
  storage.setAlarm = (dueMs) => {
    // It is billed as a row.
    counts.alarms += 1;
    counts.rows_written += 1;
    alarms.set(id, { name, dueMs: Number(dueMs) });
    return setAlarm(real.Date.now() + YEAR_MS);
  };
  // Not counted yet: who begins to use them counts them here.
  for (const method of ['put', 'delete', 'deleteAll', 'getAlarm', 'deleteAlarm'])
    storage[method] = () => uncounted(method);
  for (const method of ['put', 'delete']) storage.kv[method] = () => uncounted(`kv.${method}`);
  return { setAlarm };
}

function uncounted(method) {
  throw new Error(`bench/counted/watch.mjs does not count storage.${method} yet`);
}

/** The object whose alarm is next, if it is set for the next `withinMs`: its class and id. */
function next(withinMs) {
  const [first] = [...alarms].sort(([, one], [, other]) => one.dueMs - other.dueMs);
  if (!first || first[1].dueMs > clockMs + withinMs) return undefined;
  const [id, { name, dueMs }] = first;
  return { id, name, dueMs };
}

/** Rings the alarm that is next, if it is set for the next `withinMs`. `objectOf` gives an object by class and id. Gives whether there was one. */
export async function ring(withinMs, objectOf) {
  const due = next(withinMs);
  if (!due) return false;
  alarms.delete(due.id);
  clockMs = Math.max(clockMs, due.dueMs);
  underWay += 1;
  await objectOf(due.name, due.id).benchRing();
  return true;
}

/** Takes all objects whose alarm is set out of memory. */
export async function evict(objectOf) {
  const gone = [...alarms].map(([id, { name }]) => objectOf(name, id).benchEvict());
  await Promise.allSettled(gone);
}

export const counts = () => ({
  objects: Object.fromEntries(
    Object.entries(objects).map(([name, one]) => {
      const all = Object.values(sizes[name]);
      return [name, { ...one, objects: all.length, bytes: all.reduce((sum, size) => sum + size, 0) }];
    }),
  ),
  crossings,
  under_way: underWay,
  timers: timers.size,
});
