// HTTP by hand: a request whose body never ends, or that only says how long its body is.

import { connect } from 'node:net';

/** One chunk of a body, and no last one. */
export const ENDLESS = { 'transfer-encoding': 'chunked' };
/** So many bytes are said to come; none does. */
export const declared = (bytes) => ({ 'content-length': String(bytes) });

const chunk = (bytes) => `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`;

/**
 * Sends the head of a request and, of a chunked one, `sent` bytes. Gives `head()`, that of the answer, empty if none has come
 * in `waitMs`, and `status()`, undefined then; `write` sends more.
 */
export function begin(url, method, path, headers, sent = 16) {
  const socket = connect({ host: url.hostname, port: url.port });
  const fields = { host: url.host, 'user-agent': 'raw', ...headers };
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`${method} ${path} HTTP/1.1\r\n${head.join('')}\r\n`);
  if (fields['transfer-encoding'] === 'chunked') socket.write(chunk(sent));
  let text = '';
  const answered = new Promise((resolve) => {
    const look = () => text.includes('\r\n\r\n') && resolve(text);
    socket.on('data', (data) => {
      text += data;
      look();
    });
    // Whoever is refused may find the connection closed behind the answer.
    socket.on('error', () => resolve(text));
    socket.on('close', () => resolve(text));
  });
  return {
    write: (data) => socket.write(data),
    async head(waitMs) {
      let timer;
      const late = new Promise((resolve) => (timer = setTimeout(resolve, waitMs, '')));
      const head = await Promise.race([answered, late]);
      clearTimeout(timer);
      return head.split('\r\n\r\n')[0];
    },
    async status(waitMs) {
      return Number(/^HTTP\/1\.1 (\d{3})/.exec(await this.head(waitMs))?.[1]) || undefined;
    },
    end: () => socket.destroy(),
  };
}
