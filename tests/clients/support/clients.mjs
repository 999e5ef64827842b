// Clients as people have them: each with its own way to try again, told to do so for POST too, which none of them does by
// itself. `post` gives what came in the end.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import got from 'got';
import ky from 'ky';
import { Agent, RetryAgent, request } from 'undici';

import { setUpPython } from '../../../scripts/setup/python.mjs';

const folder = new URL('..', import.meta.url).pathname;

const RETRIES = 12;
/** Long enough for any answer of the site, as it is only waited for where none will come. */
const TIMEOUT_MS = 2_000;
const PAUSE_MS = 5;

export const clients = {
  got: async () => ({
    post: async (url, headers, body) => {
      const answer = await got.post(url, {
        headers,
        body,
        timeout: { request: TIMEOUT_MS },
        retry: {
          limit: RETRIES,
          methods: ['POST'],
          calculateDelay: ({ computedValue }) => computedValue && PAUSE_MS,
        },
      });
      return { status: answer.statusCode, text: answer.body };
    },
    close: () => {},
  }),

  ky: async () => ({
    post: async (url, headers, body) => {
      const answer = await ky.post(url, {
        headers,
        body,
        timeout: TIMEOUT_MS,
        retry: { limit: RETRIES, methods: ['post'], delay: () => PAUSE_MS, retryOnTimeout: true },
      });
      return { status: answer.status, text: await answer.text() };
    },
    close: () => {},
  }),

  "undici's RetryAgent": async () => {
    const errorCodes = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'UND_ERR_HEADERS_TIMEOUT'];
    const agent = new RetryAgent(new Agent({ headersTimeout: TIMEOUT_MS }), {
      maxRetries: RETRIES,
      methods: ['POST'],
      minTimeout: PAUSE_MS,
      maxTimeout: PAUSE_MS,
      errorCodes,
    });
    return {
      post: async (url, headers, body) => {
        const answer = await request(url, { method: 'POST', dispatcher: agent, headers, body });
        return { status: answer.statusCode, text: await answer.body.text() };
      },
      close: () => agent.close(),
    };
  },

  "Python's requests with urllib3's Retry": async () => {
    const bin = await setUpPython('clients', join(folder, 'requirements.txt'));
    const settings = JSON.stringify({ retries: RETRIES, timeout_s: TIMEOUT_MS / 1000 });
    const child = spawn(join(bin, 'python'), [join(folder, 'requests_client.py'), settings], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const lines = createInterface({ input: child.stdout });
    const died = once(child, 'exit').then(() => Promise.reject(new Error('requests_client.py is gone')));
    died.catch(() => {}); // nobody may be waiting for it
    return {
      post: async (url, headers, body) => {
        const answered = once(lines, 'line');
        child.stdin.write(`${JSON.stringify({ url, headers, body })}\n`);
        const answer = JSON.parse((await Promise.race([answered, died]))[0]);
        if (answer.error) throw new Error(answer.error);
        return answer;
      },
      close: () => child.stdin.end(),
    };
  },
};
