// Counts what ours asks of the runtime, from outside: the objects' methods, their storage, and each call from WebAssembly to
// JavaScript. It must be imported before what instantiates the WebAssembly.

/** By the class of an object. */
const objects = {};
/** The size of each object's database, by class and id. */
const sizes = {};
let crossings = 0;

// Two steps in the same millisecond write less than two in different ones, by chance. So here each look at the clock is later.
const RealDate = Date;
let clockMs = 0;
const now = () => (clockMs = Math.max(RealDate.now(), clockMs + 1));
globalThis.Date = class extends RealDate {
  constructor(...given) {
    super(...(given.length > 0 ? given : [now()]));
  }
  static now = now;
};

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
    constructor(ctx, env) {
      watchStorage(ctx, counts, ofClass);
      super(ctx, env);
    }
  }
  for (const method of methodsOf(Class))
    Counted.prototype[method] = function (...given) {
      counts.requests += 1;
      return Class.prototype[method].apply(this, given);
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

function watchStorage(ctx, counts, sizesOfClass) {
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
  storage.setAlarm = (...given) => {
    // It is billed as a row.
    counts.alarms += 1;
    counts.rows_written += 1;
    return setAlarm(...given);
  };
  // Not counted yet: who begins to use them counts them here.
  for (const name of ['put', 'delete', 'deleteAll']) storage[name] = () => uncounted(name);
  for (const name of ['put', 'delete']) storage.kv[name] = () => uncounted(`kv.${name}`);
}

function uncounted(name) {
  throw new Error(`bench/counted/watch.mjs does not count storage.${name} yet`);
}

export const counts = () => ({
  objects: Object.fromEntries(
    Object.entries(objects).map(([name, one]) => {
      const all = Object.values(sizes[name]);
      return [name, { ...one, objects: all.length, bytes: all.reduce((sum, size) => sum + size, 0) }];
    }),
  ),
  crossings,
});
