// The settlement as it lies on disk, and the judge of it. The judge shares no code with the Worker: it knows which movements there
// were and when they came, and says what every file must hold.

import { createHash } from 'node:crypto';

export const DAY_MS = 86_400_000;
const HEAD = 'line_id,kind,provider,provider_reference,amount_minor,currency,at';

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
export const dateOf = (ms) => new Date(ms).toISOString().slice(0, 10);
export const fileOf = (date) => `settlement/${date}.csv`;

/** Movements of money, as the read model learns of them: put into its tables directly, since thousands of payments would take an hour. */
export class Movements {
  /** Each with the line that it must become, and the day in whose file that must stand. */
  all = [];
  #disk;
  #made = 0;

  constructor(disk) {
    this.#disk = disk;
  }

  /** Movements at these times, which the read model learns of now; files until the day `closed` are closed. */
  learn(times, closed) {
    this.#disk.write((database) => {
      const audit = database.prepare(
        `INSERT INTO audit_records (object, audit_id, at_ms, actor, action, subject, data) VALUES (?, ?, ?, 'demo', ?, ?, ?)`,
      );
      const refund = database.prepare(
        `INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, provider_refund,
           created_at_ms, updated_at_ms) VALUES (?, ?, 1, ?, ?, ?, 'requested_by_customer', ?, ?, ?, ?)`,
      );
      for (const at of times) this.#learn({ audit, refund, at, closed });
    });
  }

  /** As if a file with all of them had been written. */
  settle(name) {
    this.#disk.write((database) => {
      const line = database.prepare('INSERT INTO settlement_lines VALUES (?, ?, ?, ?, ?, ?, ?, ?)');
      for (const { line: cells } of this.all) {
        const [id, kind, provider, reference, amount, currency, at] = cells.split(',');
        line.run(id, name, kind, provider, reference, Number(amount), currency, Date.parse(at));
      }
    });
  }

  #learn({ audit, refund, at, closed }) {
    const n = (this.#made += 1);
    const id = String(n).padStart(16, '0');
    const [currency, provider] = n % 3 === 0 ? ['eur', 'adyen'] : ['usd', 'stripe'];
    const amount = 100 + (n % 900);
    const note = (action, subject, data, number = 1) =>
      audit.run(id, number, at, action, subject, JSON.stringify(data));
    const moved = (subject, kind, by, reference, number = '') => {
      const due = Math.max(startOf(at), closed === undefined ? 0 : closed + DAY_MS);
      const cells = [
        `${subject}:${kind}${number}`,
        kind,
        by,
        reference,
        amount,
        currency,
        new Date(at).toISOString(),
      ];
      this.all.push({ id: cells[0], line: cells.join(','), kind, amount, currency, date: dateOf(due) });
    };
    if ([1, 2].includes(n % 10)) {
      const failed = n % 10 === 2;
      const status = failed ? 'failed' : 'succeeded';
      refund.run(`re_${id}`, `pay_${id}`, status, amount, currency, provider, `pr_${id}`, at, at);
      note('refund.succeeded', `re_${id}`, {});
      moved(`re_${id}`, 'refund', provider, `pr_${id}`);
      if (failed) note('refund.failed', `re_${id}`, {}, 2);
      if (failed) moved(`re_${id}`, 'refund_failed', provider, `pr_${id}`);
    } else {
      const data = { provider, provider_payment: `pi_${id}`, amount_captured: amount, currency };
      note('payment.captured', `pay_${id}`, data);
      moved(`pay_${id}`, 'capture', provider, `pi_${id}`);
      // It was only believed to be captured, and was voided.
      if (n % 10 === 3) {
        note('payment.capture_failed', `pay_${id}`, { ...data, amount_captured: 0 }, 2);
        note('payment.canceled', `pay_${id}`, { ...data, amount_captured: 0 }, 3);
        moved(`pay_${id}`, 'capture_failed', provider, `pi_${id}`, ':2');
      }
    }
  }
}

const startOf = (ms) => ms - (ms % DAY_MS);

/** The versions of files at the first sight of each. */
export class Seen {
  #first = new Map();

  look(disk) {
    for (const object of disk.objects('settlement/'))
      if (!this.#first.has(object.key)) this.#first.set(object.key, sha256(disk.bytes(object)));
  }

  get(key) {
    return this.#first.get(key);
  }
}

/** What is wrong with the files of these days, in sentences. */
export function complaints(disk, { movements, seen, dates }) {
  const found = [];
  const objects = new Map(disk.objects('settlement/').map((object) => [object.key, object]));
  const noted = new Map(disk.rows('SELECT * FROM settlement_files').map((row) => [row.name, row]));
  const byDate = Map.groupBy(movements.all, ({ date }) => date);
  const stands = new Map();
  for (const date of dates) {
    const name = fileOf(date);
    const object = objects.get(name);
    objects.delete(name);
    if (!object) {
      found.push(`${name} was not written`);
      continue;
    }
    const bytes = disk.bytes(object);
    if (sha256(bytes) !== (seen.get(name) ?? sha256(bytes))) found.push(`${name} was changed`);
    const must = expected(byDate.get(date) ?? []);
    for (const line of bytes.toString().split('\n').slice(1)) {
      if (/^(total|trailer),|^$/.test(line)) continue;
      const [id] = line.split(',');
      if (stands.has(id)) found.push(`${id} stands in ${stands.get(id)} and in ${name}`);
      stands.set(id, name);
    }
    if (bytes.toString() !== must.text) found.push(`${name} is not what it must be`);
    const row = noted.get(name);
    if (!row?.written_at_ms) found.push(`${name} is not noted`);
    else if (row.sha256 !== must.sha256 || row.lines !== must.lines || row.totals !== must.totals)
      found.push(`${name} is noted wrongly`);
  }
  const isDue = ({ date }) => dates.includes(date);
  for (const { id } of movements.all.filter(isDue))
    if (!stands.has(id)) found.push(`${id} stands in no file`);
  for (const name of objects.keys()) found.push(`${name} must not be there`);
  return found;
}

/** A file's bytes, and what must be noted of it. */
function expected(movements) {
  const lines = movements.map(({ line }) => line).sort();
  const body = lines.map((line) => `${line}\n`).join('');
  const sums = new Map();
  for (const { kind, currency, amount } of movements) {
    const sum = sums.get(`${kind},${currency}`) ?? { count: 0, amount: 0 };
    sums.set(`${kind},${currency}`, { count: sum.count + 1, amount: sum.amount + amount });
  }
  const totals = {};
  let text = `${HEAD}\n${body}`;
  for (const [of, sum] of [...sums].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [kind, currency] = of.split(',');
    text += `total,${of},${sum.count},${sum.amount}\n`;
    totals[kind] = { ...totals[kind], [currency]: sum.amount };
  }
  const hash = sha256(body);
  text += `trailer,${lines.length},${hash}\n`;
  return { text, sha256: hash, lines: lines.length, totals: JSON.stringify(totals) };
}

/** A bank's answer, and what must be noted of each of its lines. */
export function answerTo(movements, { strangers, doubled, wrong }) {
  const settled = ({ id, amount, currency }, more = 0) => `${id},settled,${amount + more},${currency}`;
  const lines = movements.map((movement, n) =>
    n % wrong === wrong - 1
      ? { row: settled(movement, 1), booked: 'differs' }
      : { row: settled(movement), booked: 'booked' },
  );
  const right = lines.filter(({ booked }) => booked === 'booked');
  for (let n = 0; n < right.length; n += doubled) lines.push({ row: right[n].row, booked: 'duplicate' });
  for (let n = 0; n < strangers; n += 1)
    lines.splice(n * 7, 0, { row: `pay_nobody${n}:capture,settled,1,usd`, booked: 'unknown' });
  const rows = lines.map(({ row }) => row);
  const text = ['line_id,outcome,amount_minor,currency', ...rows, `trailer,${rows.length}`, ''].join('\n');
  const id = sha256(text).slice(0, 16);
  return { text, id, lines, done: `answers/done/${id}-${id}.csv` };
}

/** What is wrong with the import of an answer, in sentences. */
export function answerComplaints(disk, answer) {
  const found = [];
  const booked = new Map();
  const noted = new Map(
    disk
      .rows(
        'SELECT line_id, line_number, reference, amount_minor, currency, outcome, booked FROM settlement_answers',
      )
      .map((row) => [row.line_id, row]),
  );
  const breaks = new Map(
    disk
      .rows("SELECT break_id, note, state FROM breaks WHERE kind = 'settlement'")
      .map((row) => [row.break_id, row]),
  );
  answer.lines.forEach(({ row, booked: must }, index) => {
    const line = index + 2;
    const id = `${answer.id}#${line}`;
    const it = noted.get(id);
    noted.delete(id);
    if (!it) return found.push(`line ${line} was not imported`);
    if ([it.reference, it.outcome, it.amount_minor, it.currency].join(',') !== row)
      found.push(`line ${line} was imported as another one`);
    if (it.booked !== must) found.push(`line ${line} is ${it.booked}, not ${must}`);
    if (it.booked === 'booked') booked.set(it.reference, (booked.get(it.reference) ?? 0) + 1);
    const reported = breaks.get(`settlement:bank:${id}`);
    breaks.delete(`settlement:bank:${id}`);
    if (must === 'booked' && reported) found.push(`line ${line} was booked and is reported`);
    if (must !== 'booked' && reported?.note !== `${must}, line ${line} of ${answer.id}.csv`)
      found.push(`line ${line} is ${must} and is not reported`);
  });
  for (const [reference, times] of booked) if (times > 1) found.push(`${reference} is booked ${times} times`);
  for (const id of [...noted.keys(), ...breaks.keys()]) found.push(`${id} must not be there`);
  const places = disk.objects('answers/').map(({ key }) => key);
  if (places.join() !== answer.done) found.push(`the answer lies in ${places.join(' and ') || 'no place'}`);
  return found;
}
