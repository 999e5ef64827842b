// What the runtime writes comes by way of a file, in the place of a pipe. A test's question to a binding stops this process until the runtime
// answers, and a runtime that has filled its pipe stops until this process reads it: each would wait for the other. A file is never full. And it
// can be read when it is asked for: a test need not wait until it hears that there is more.

import { closeSync, openSync, readSync, rmSync, watch } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';

import { ownFolder } from '../../../scripts/lib/leftovers.mjs';

const CHUNK_BYTES = 65_536;

/** The runtimes that run. */
export const runtimes = new Set();

let files = 0;
let opened;
const reading = new Set();

/** Reads all that was written until now. Who listens has it when this returns. */
export function readAll() {
  for (const readOn of reading) readOn();
}

/** A descriptor for the output of the runtime that is started next. */
export function open() {
  const file = join(ownFolder('log'), `${(files += 1)}.txt`);
  opened = { file, descriptor: openSync(file, 'a') };
  return opened.descriptor;
}

/** What the runtime writes to the descriptor that was opened last, until it ends. */
export function read(runtime) {
  const { file } = opened;
  closeSync(opened.descriptor);
  const descriptor = openSync(file, 'r');
  const lines = new Readable({ read() {} });
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const readOn = () => {
    for (let size; (size = readSync(descriptor, chunk)) > 0;)
      lines.push(Buffer.from(chunk.subarray(0, size)));
  };
  const watcher = watch(file, { persistent: false }, readOn);
  reading.add(readOn);
  runtimes.add(runtime);
  runtime.once('exit', () => {
    runtimes.delete(runtime);
    watcher.close();
    reading.delete(readOn);
    readOn();
    lines.push(null);
    closeSync(descriptor);
    rmSync(file);
  });
  return lines;
}
