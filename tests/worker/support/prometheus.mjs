// Reads the exposition as strictly as Prometheus does, and more: a family is described once, before its samples.

import assert from 'node:assert/strict';

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (-?\d+(?:\.\d+)?)$/;
const PAIR = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y;

function labelsOf(text = '') {
  const labels = {};
  PAIR.lastIndex = 0;
  while (PAIR.lastIndex < text.length) {
    const at = PAIR.lastIndex;
    const [, name, value] = PAIR.exec(text) ?? assert.fail(`labels: ${text} at ${at}`);
    assert.ok(!(name in labels), `${name} twice: ${text}`);
    labels[name] = value.replace(/\\(.)/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped));
    if (PAIR.lastIndex === 0) break;
  }
  return labels;
}

/** The samples of a text, by name. */
export function parse(text) {
  assert.ok(text.endsWith('\n'), 'the last line ends too');
  const families = new Map();
  const seen = new Set();
  const samples = [];
  let current;
  for (const line of text.slice(0, -1).split('\n')) {
    const [, what, name, rest] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (what === 'HELP') {
      assert.ok(!families.has(name), `${name} is described twice`);
      families.set(name, undefined);
      current = name;
    } else if (what === 'TYPE') {
      assert.equal(name, current, line);
      assert.match(rest, /^(counter|gauge|histogram)$/);
      families.set(name, rest);
    } else {
      const [, sample, labels, value] = SAMPLE.exec(line) ?? assert.fail(`not a sample: ${line}`);
      const suffix = sample.slice(current.length);
      const suffixes = families.get(current) === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
      assert.ok(sample.startsWith(current) && suffixes.includes(suffix), `${line} is not of ${current}`);
      const id = `${sample} ${JSON.stringify(labelsOf(labels))}`;
      assert.ok(!seen.has(id), `twice: ${line}`);
      seen.add(id);
      samples.push({ name: sample, labels: labelsOf(labels), value: Number(value) });
    }
  }
  /** The sum of all samples of this name that have these labels; 0 if there are none. */
  const sum = (name, wanted = {}) =>
    samples
      .filter((one) => one.name === `paid_once_${name}`)
      .filter(({ labels }) => Object.entries(wanted).every(([label, value]) => labels[label] === value))
      .reduce((total, { value }) => total + value, 0);
  return { families, samples, sum };
}
