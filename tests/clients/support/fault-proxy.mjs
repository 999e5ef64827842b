// A network between a client and the site. It fails as it is told, once a request, and then works.
//
//     const proxy = await faultProxy(site.url);
//     proxy.plan('response_lost', 'unavailable');
//     …                              the client asks proxy.origin
//     proxy.answers                  what the site itself answered, oldest first
//     proxy.close();

import { createServer, request } from 'node:http';
import { once } from 'node:events';

/** What can happen to a request. `reached` says whether the site has run it before the client knows that something is wrong. */
export const FAULTS = {
  request_lost: { reached: false, play: ({ client }) => client.socket.destroy() },
  request_reset: { reached: false, play: ({ client }) => client.socket.resetAndDestroy() },
  unavailable: { reached: false, play: ({ client }) => client.refuse(503) },
  response_lost: { reached: true, play: ({ client, ask }) => ask().then(() => client.socket.destroy()) },
  response_reset: {
    reached: true,
    play: ({ client, ask }) => ask().then(() => client.socket.resetAndDestroy()),
  },
  bad_gateway: { reached: true, play: ({ client, ask }) => ask().then(() => client.refuse(502)) },
  /** The connection stays open, and nothing comes: the client's own time is what ends it. */
  silence: { reached: true, play: ({ ask }) => ask() },
};

export async function faultProxy(site) {
  let plan = [];
  let answers = [];

  const server = createServer(async (incoming, outgoing) => {
    const planned = answers; // one that comes late belongs to its own plan
    const body = Buffer.concat(await incoming.toArray());
    const ask = async () => {
      const answer = await forward(site, incoming, body);
      planned.push(answer);
      return answer;
    };
    const client = {
      socket: incoming.socket,
      refuse: (status) => outgoing.writeHead(status, { 'retry-after': '0' }).end(),
    };
    const fault = plan.shift();
    if (fault !== undefined) return fault({ client, ask });
    const { status, headers, bytes } = await ask();
    outgoing.writeHead(status, headers).end(bytes);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    get answers() {
      return answers;
    },
    /** What happens to the next requests: names of FAULTS, or functions of the same form as their `play`. */
    plan: (...faults) => {
      answers = [];
      plan = faults.map((fault) => FAULTS[fault]?.play ?? fault);
    },
    /** How many faults have not come to pass. */
    left: () => plan.length,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The site's answer, read to its end: when it is here, whatever was charged has been charged. */
async function forward(site, { method, url, headers }, body) {
  const asked = request(new URL(url, site), { method, headers, agent: false }).end(body);
  const [answer] = await once(asked, 'response');
  const bytes = Buffer.concat(await answer.toArray());
  const { 'transfer-encoding': _, connection: __, ...rest } = answer.headers;
  return { status: answer.statusCode, headers: rest, bytes };
}
