// A collector of traces on this machine. What it is sent is read by OpenTelemetry's own messages, which share nothing with the Worker.

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';

import { setUpPython } from '../../../scripts/setup/python.mjs';
import { until } from './until.mjs';

const here = import.meta.dirname;

export async function startCollector() {
  const bin = await setUpPython('otlp', join(here, 'otlp-requirements.txt'));
  const [requests, waiting] = [[], new Set()];
  let answer = 200;
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { url, headers, method } = request;
    requests.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
    if (answer === 'never') {
      waiting.add(response);
      response.once('close', () => waiting.delete(response));
    } else response.writeHead(answer, { 'content-type': 'application/json' }).end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  /** What was read already, so that each body is read once. */
  const read = [];
  function spans() {
    const bodies = requests.slice(read.length).map(({ body }) => body);
    if (bodies.length > 0) {
      const input = bodies.map((body) => `${body}\n`).join('');
      const lines = execFileSync(join(bin, 'python'), [join(here, 'otlp.py')], { input })
        .toString()
        .trim();
      read.push(...lines.split('\n').map((line) => JSON.parse(line)));
    }
    return read.flatMap(({ resourceSpans }) =>
      resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans.map(plain))),
    );
  }

  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    /** How it answers from now on: with a status, or `never`. */
    answer: (how) => void (answer = how),
    /** How many requests wait for an answer. */
    waiting: () => waiting.size,
    spans,
    /** The spans of a trace, once there are those of these names. */
    trace(traceId, ...names) {
      const ofIt = () => spans().filter((span) => span.traceId === traceId);
      const named = (found) => found.map(({ name }) => name);
      const told = () => `the trace has ${names.join(', ')}: it has ${named(ofIt()).join(', ')}`;
      return until(told, () => {
        const found = ofIt();
        const left = named(found);
        const has = (name) => left.includes(name) && left.splice(left.indexOf(name), 1);
        return names.every(has) && found;
      });
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** A span whose attributes are an object. */
function plain({ attributes = [], ...span }) {
  const value = ({ intValue, ...other }) => (intValue === undefined ? Object.values(other)[0] : +intValue);
  return { ...span, attributes: Object.fromEntries(attributes.map((one) => [one.key, value(one.value)])) };
}
