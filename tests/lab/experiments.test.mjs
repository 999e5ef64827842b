// docs/lab.md, done: each of its commands is run as it stands there, by bash, in the order of the page, against `npm run lab`;
// and what the page promises to be seen is held against what is seen. `…` stands for anything.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { freePorts } from '../../scripts/lib/lab.mjs';
import { HANGS_AFTER_MS, until } from '../worker/support/until.mjs';

const ROOT = new URL('../..', import.meta.url).pathname;

const page = readFileSync(join(ROOT, 'docs', 'lab.md'), 'utf8');
/** The commands of the page with their heading, and with what is to be seen. What npm runs is no business of the shell. */
const experiments = page.split(/^## /m).flatMap((section) => {
  const heading = section.split('\n')[0].replace(/^# /, '');
  const blocks = [...section.matchAll(/^```(\w+)\n([^]*?)^```$/gm)].map(([, kind, text]) => ({ kind, text }));
  return blocks.flatMap(({ kind, text }, index) => {
    if (kind !== 'sh' || text.startsWith('npm run ')) return [];
    const next = blocks[index + 1];
    assert.equal(next?.kind, 'text', `what is to be seen after:\n${text}`);
    return [{ heading, commands: text, promised: next.text }];
  });
});

const { port, bank } = await freePorts();
const state = join(ROOT, '.wrangler', `lab-${port}`);
const files = mkdtempSync(join(tmpdir(), 'paid-once-lab-'));
let lab;
let shell;
const log = [];
const seen = (text) => log.join('').split(text).length - 1;

before(
  async () => {
    mkdirSync(state, { recursive: true });
    writeFileSync(join(state, 'of-last-time'), '');
    lab = spawn(process.execPath, [join(ROOT, 'scripts', 'lab.mjs')], {
      env: { ...process.env, PORT: `${port}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // Should this process be killed, the pipe breaks, and the lab is ended as by Ctrl-C.
    const guard = spawn('sh', ['-c', `cat > /dev/null; kill -INT ${lab.pid}`], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    });
    guard.unref();
    guard.stdin.unref();
    for (const stream of [lab.stdout, lab.stderr]) stream.on('data', (chunk) => log.push(`${chunk}`));
    const isReady = () => seen('The lab is ready') > 0 || lab.exitCode !== null;
    await until('the lab is ready', isReady, { everyMs: 100 });
    assert.equal(lab.exitCode, null, log.join(''));
    shell = new Shell();
  },
  { timeout: HANGS_AFTER_MS },
);

after(async () => {
  shell?.close();
  rmSync(files, { recursive: true, force: true });
  rmSync(state, { recursive: true, force: true });
});

test('the lab begins empty', () => {
  assert.ok(!existsSync(join(state, 'of-last-time')));
});

describe('docs/lab.md', () => {
  const outputs = new Map();

  for (const [index, { heading, commands, promised }] of experiments.entries())
    test(
      `${index + 1}, ${heading}: ${commands.trim().split('\n').at(-1)}`,
      { timeout: HANGS_AFTER_MS },
      async () => {
        const output = await shell.run(here(commands));
        outputs.set(heading, (outputs.get(heading) ?? '') + output);
        const pattern = promised.trim().split('…').map(escape).join('[^]*?');
        assert.match(
          output.trim(),
          new RegExp(`^${pattern}$`),
          `after:\n${commands}\nin the lab:\n${log.slice(-20).join('')}`,
        );
      },
    );

  test('one key is one payment, and no key is one each time', () => {
    const ids = (heading) => outputs.get(heading).match(/pay_[\w-]{43}(?=")/g);
    const again = ids('2. The same again');
    assert.equal(again.length, 2);
    assert.equal(new Set(again).size, 1);
    const together = ids('4. At the same time');
    assert.equal(together.length, 3, 'two of the first two, and one line for the twenty');
    assert.equal(together[0], together[1]);
    const keyless = outputs.get('6. Without a key').match(/^pay_[\w-]{43}$/gm);
    assert.equal(new Set(keyless).size, 2);
  });

  test('of two at the same time one waited', () => {
    const waits = /concurrent_request_waits_total (\d+)/.exec(outputs.get('4. At the same time'));
    assert.equal(waits?.[1], '1');
  });

  test('a payment without a key is warned of', () => {
    assert.equal(seen('"event":"key_missing"'), 2);
  });

  test('the killed server was started again', () => {
    assert.equal(seen('Paid Once is gone. It is started again.'), 1);
  });
});

describe("the tutorial's load script", { timeout: HANGS_AFTER_MS }, () => {
  const TIMES = 5;
  /** Plays tests/load/tutorial.js. Gives the names of the checks that always held, and of those that never did. */
  const play = async (url) => {
    const args = ['tests/lab/support/play-k6.mjs', 'tests/load/tutorial.js', `${TIMES}`];
    const env = { ...process.env, URL: url };
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, env });
    const checks = Object.entries(JSON.parse(stdout));
    const of = (count) => checks.filter(([, seen]) => seen[count] === TIMES).map(([name]) => name);
    return { all: checks.length, held: of('passes'), broken: of('fails') };
  };

  test('passes as it stands, and the bank has charged once for each key', async () => {
    const charges = async () => {
      const ledger = await (await fetch(`http://127.0.0.1:${bank}/_sim/ledger`)).json();
      return ledger.totals.succeeded_charges;
    };
    const before = await charges();
    const { all, held, broken } = await play(`http://127.0.0.1:${port}`);
    assert.deepEqual(broken, []);
    assert.equal(all, 9);
    assert.equal(held.length, all);
    assert.equal((await charges()) - before, TIMES);
  });

  test('control: against a server that forgets keys, what is about keys fails', async (t) => {
    let made = 0;
    const forgetful = createHttpServer((request, response) => {
      request.resume().on('end', () => {
        response.writeHead(200, { 'Idempotency-Key': request.headers['idempotency-key'] });
        const body = {
          id: `pay_${(made += 1)}`,
          cached: false,
          idempotency_key: request.headers['idempotency-key'],
        };
        response.end(JSON.stringify(body));
      });
    });
    forgetful.listen(0, '127.0.0.1');
    await once(forgetful, 'listening');
    t.after(() => forgetful.close());
    const { broken } = await play(`http://127.0.0.1:${forgetful.address().port}`);
    assert.deepEqual(broken, [
      'a retry has the same id',
      'a retry is from the cache',
      'another amount is a conflict',
      'which says what is wrong',
    ]);
  });
});

test('Ctrl-C ends the lab, and nothing stays behind', { timeout: HANGS_AFTER_MS }, async () => {
  const gone = once(lab, 'exit');
  lab.kill('SIGINT');
  assert.deepEqual(await gone, [0, null]);
  for (const one of [port, bank]) await until(`port ${one} is free again`, () => canListen(one));
});

/** The page's commands for this test's lab. */
function here(commands) {
  return commands
    .replaceAll('localhost:8000', `localhost:${port}`)
    .replaceAll('localhost:8001', `localhost:${bank}`)
    .replaceAll('.wrangler/lab/', `.wrangler/lab-${port}/`);
}

function escape(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/** A shell that goes on from block to block, as a terminal does. */
class Shell {
  #bash = spawn('bash', ['--noprofile', '--norc'], { cwd: ROOT, stdio: ['pipe', 'pipe', 'inherit'] });
  #output = '';
  #blocks = 0;

  constructor() {
    this.#bash.stdin.write('exec 2>&1\n');
    this.#bash.stdout.setEncoding('utf8').on('data', (chunk) => (this.#output += chunk));
  }

  /** What a block shows. */
  async run(commands) {
    this.#blocks += 1;
    const file = join(files, `${this.#blocks}.sh`);
    const end = `end of block ${this.#blocks} ${crypto.randomUUID()}`;
    writeFileSync(file, commands);
    this.#output = '';
    this.#bash.stdin.write(`source ${file} < /dev/null\necho '${end}'\n`);
    await until('the block ends', () => this.#output.includes(end));
    return this.#output.slice(0, this.#output.indexOf(end));
  }

  close() {
    this.#bash.kill('SIGKILL');
  }
}

function canListen(one) {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(one, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}
