// What stands between the gate and an application: it loses answers when it is told to.

import { once } from 'node:events';
import { createServer, request } from 'node:http';

export async function startWire(target) {
  const wire = {
    /** What happens to the answer of the next POST: `lost`, `half` or `gateway`. */
    fault: undefined,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  const server = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const fault = method === 'POST' ? wire.fault : undefined;
    if (fault) wire.fault = undefined;
    const asked = request(
      { host: target.hostname, port: target.port, method, path: url, headers },
      (answer) => {
        if (!fault) {
          outgoing.writeHead(answer.statusCode, answer.rawHeaders);
          return answer.pipe(outgoing);
        }
        // The application is done with it.
        answer.resume().on('end', () => {
          if (fault === 'lost') return outgoing.destroy();
          if (fault === 'gateway') return outgoing.writeHead(504).end('gateway timeout');
          outgoing.writeHead(200, { 'content-type': 'text/html', 'content-length': 1000 });
          outgoing.write('<p>half', () => outgoing.destroy());
        });
      },
    );
    asked.on('error', () => outgoing.destroy());
    incoming.pipe(asked);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  wire.origin = new URL(`http://127.0.0.1:${server.address().port}`);
  return wire;
}
