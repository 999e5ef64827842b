// What goes wrong while the clients work: providers that fail, webhooks out of order, objects thrown out of memory, alarms that are lost,
// the clock that strikes.
import { setTimeout as pause } from 'node:timers/promises';

const FAULTS = [
  'request_lost',
  'response_lost',
  'slow',
  'slow_response',
  'error_before',
  'error_after',
  'rate_limited',
  'lock_timeout',
  'connection_reset',
  'connection_reset_after',
  'unreadable_answer',
];
/** `simulator.fault()` means payments unless it is told otherwise. */
const everywhere = { path: undefined, method: undefined };
const TARGETS = {
  payments: { path: '/v1/', method: 'POST' },
  adyen: { path: '/adyen/', method: 'POST' },
  'look-ups': { path: '/v1/', method: 'GET' },
  emails: { path: '/resend/' },
};
/** Most of them strike payments. */
const SHARES = { payments: 8, adyen: 3, 'look-ups': 2, emails: 2 };
/** How many requests one fault strikes at most, where that is more than one. */
const MOST = { payments: 5, adyen: 3 };
/** Each comes again after at most so long, and at least a quarter of it. */
const PAUSES_MS = { fault: 200, evict: 600, webhooks: 4000, loseAlarm: 200, tick: 8000, notePlayed: 3000 };
/** No more wait for requests to the same target. */
const ARMED_MAX = 3;
const EVICTED_WITHIN_MS = 2000;
const TOMORROW_MS = 86_400_000;

export class Trouble {
  counts = { evictions: 0, 'alarms lost': 0, ticks: 0 };
  modes = {};
  /** How often each fault was played, by its name. */
  played = {};
  #site;
  #rng;
  #token;
  #clients;
  #over = false;
  #seen = new Set();
  #stopped = new AbortController();

  constructor(site, rng, clients, token) {
    this.#site = site;
    this.#rng = rng;
    this.#clients = clients;
    this.#token = token;
  }

  /** Makes trouble of every kind at once until `stop()`: none waits for another. */
  async run() {
    await Promise.all(Object.entries(PAUSES_MS).map(([trouble, most]) => this.#again(trouble, most)));
    await this.notePlayed();
  }

  async #again(trouble, most) {
    while (!this.#over) {
      await this[trouble]();
      await pause(this.#rng.between(most / 4, most), null, { signal: this.#stopped.signal }).catch(() => {});
    }
  }

  stop() {
    this.#over = true;
    this.#stopped.abort();
  }

  async fault() {
    const fault = this.#rng.oneOf(FAULTS);
    const target = this.#rng.weighted(SHARES);
    const count = this.#rng.between(1, MOST[target] ?? 1);
    const delay_ms = this.#rng.between(100, 1500);
    const waiting = (await this.#site.simulator.faults()).filter(({ path, method }) => {
      const own = TARGETS[target];
      return path === own.path && (method ?? undefined) === own.method;
    });
    if (waiting.length >= ARMED_MAX) return;
    await this.#site.simulator.fault(fault, { ...everywhere, ...TARGETS[target], count, delay_ms });
  }

  /** Any object. The runtime sometimes never says that it has done so: nobody waits for that. */
  async evict() {
    const ids = await this.#site.objects.ids();
    if (ids.length === 0) return;
    const evicted = this.#site.worker.evictDurableObject('KEYS', { id: this.#rng.oneOf(ids) });
    await Promise.race([
      evicted.then(
        () => (this.counts.evictions += 1),
        () => {}, // it was not in memory
      ),
      pause(EVICTED_WITHIN_MS, null, { signal: this.#stopped.signal }).catch(() => {}),
    ]);
  }

  async webhooks() {
    const mode = this.#rng.oneOf(['on', 'doubled', 'shuffled', 'late']);
    const delay_ms = this.#rng.between(200, 2500);
    await this.#site.simulator.webhooks(mode, { delay_ms, seed: this.#rng.between(1, 1000) });
    this.modes[mode] = (this.modes[mode] ?? 0) + 1;
  }

  async tick() {
    await this.#site.desk().scheduled({ cron: '*/5 * * * *' });
    this.counts.ticks += 1;
  }

  /**
   * An alarm of an object that has something to do. The runtime lets nobody delete one from outside: what is due is put off until
   * tomorrow, a transaction of the object's own moves its alarm there, and then it is due as before.
   */
  async loseAlarm() {
    const resource = this.#clients.inDoubt.pop();
    if (!resource) return;
    const { sql } = this.#site.objects;
    const tomorrow = Date.now() + TOMORROW_MS;
    const due = await sql(
      resource,
      "SELECT key_id, resume_at_ms FROM idempotency_keys WHERE status = 'open' AND resume_at_ms IS NOT NULL",
    ).catch(() => []);
    if (due.length === 0) return;
    const put = (to, { key_id, resume_at_ms }, from) =>
      sql(
        resource,
        'UPDATE idempotency_keys SET resume_at_ms = ? WHERE key_id = ? AND resume_at_ms = ?',
        to ?? resume_at_ms,
        key_id,
        from ?? resume_at_ms,
      );
    for (const key of due) await put(tomorrow, key);
    await this.#site.fetch(`/admin/payments/${resource}/project`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#token}` },
    });
    // Whoever has written another time meanwhile is not disturbed.
    for (const key of due) await put(undefined, key, tomorrow);
    this.counts['alarms lost'] += 1;
  }

  /** The simulator keeps the last thousand requests. */
  async notePlayed() {
    const worker = this.#site.server.getWorker('paid-once-simulator');
    const { requests } = await (await worker.fetch('http://simulator/_sim/requests')).json();
    for (const { request_id, at_ms, fault, method, path } of requests) {
      const one = `${request_id} ${at_ms}`;
      if (this.#seen.has(one)) continue;
      this.#seen.add(one);
      if (!fault) continue;
      const isTarget = ([, target]) => path.startsWith(target.path) && (target.method ?? method) === method;
      const [where] = Object.entries(TARGETS).find(isTarget) ?? [path];
      this.played[fault] ??= {};
      this.played[fault][where] = (this.played[fault][where] ?? 0) + 1;
    }
  }
}
