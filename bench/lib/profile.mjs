// A CPU profile of ours under one load, by the inspector of workerd: as V8 writes it (.cpuprofile, for the developer tools of a browser),
// and as a flame graph. The names of functions are those of BUILD_PROFILE=named.
import { writeFileSync } from 'node:fs';

import { WebSocket } from 'undici';

import { clients } from './load.mjs';

const WARM_UP_MS = 4_000;
const PROFILED_MS = 8_000;
const SAMPLE_US = 250;
const AWAKE = 100;

const loads = {
  replay: (load, ms) => load.replays(8, ms, [...load.paid.keys()].slice(0, AWAKE)),
  payment: (load, ms) => load.firstPayments(8, ms),
};
export const profiles = Object.keys(loads);

/** Writes FILE.cpuprofile and FILE.svg. Gives what the functions took themselves, the most first, as parts of the whole. */
export async function profile(site, what, file) {
  const load = clients(site.url);
  await load.fill(8, AWAKE);
  await loads[what](load, WARM_UP_MS);
  const inspector = await inspect(site.inspector);
  await inspector.send('Profiler.enable');
  await inspector.send('Profiler.setSamplingInterval', { interval: SAMPLE_US });
  await inspector.send('Profiler.start');
  const { times } = await loads[what](load, PROFILED_MS);
  const { profile: found } = await inspector.send('Profiler.stop');
  inspector.close();
  await load.close();
  writeFileSync(`${file}.cpuprofile`, JSON.stringify(found));
  const tree = treeOf(found);
  writeFileSync(`${file}.svg`, flame(tree, `${what}: ${times.length} requests`));
  return selves(tree);
}

/** A conversation with the inspector. */
async function inspect(port) {
  const targets = await (await fetch(`http://127.0.0.1:${port}/json`)).json();
  const { webSocketDebuggerUrl: url } = targets.find(({ id }) => id.includes('http')) ?? targets[0];
  const socket = new WebSocket(url);
  await new Promise((open, fail) => {
    socket.onopen = open;
    socket.onerror = ({ error }) => fail(error ?? new Error(`no inspector at ${url}`));
  });
  const waiting = new Map();
  socket.onmessage = ({ data }) => {
    const { id, result, error } = JSON.parse(data);
    const { resolve, reject } = waiting.get(id) ?? {};
    if (error) reject?.(new Error(error.message));
    else resolve?.(result);
  };
  let last = 0;
  return {
    send: (method, params) =>
      new Promise((resolve, reject) => {
        waiting.set((last += 1), { resolve, reject });
        socket.send(JSON.stringify({ id: last, method, params }));
      }),
    close: () => socket.close(),
  };
}

/** The samples as a tree: what each call took itself, and with what it called, in µs. Idle time is left out. */
function treeOf({ nodes, samples, timeDeltas }) {
  const own = new Map();
  samples.forEach((id, i) => own.set(id, (own.get(id) ?? 0) + timeDeltas[i]));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const grow = (node) => {
    const children = (node.children ?? [])
      .map((id) => grow(byId.get(id)))
      .filter(({ name }) => name !== '(idle)');
    const self = own.get(node.id) ?? 0;
    const total = children.reduce((sum, child) => sum + child.total, self);
    return { name: nameOf(node.callFrame), self, total, children };
  };
  return grow(nodes[0]);
}

const nameOf = ({ functionName, url, lineNumber }) =>
  functionName || `(anonymous, ${url.split('/').at(-1)}:${lineNumber + 1})`;

function selves(tree) {
  const found = new Map();
  const visit = ({ name, self, children }) => {
    found.set(name, (found.get(name) ?? 0) + self);
    children.forEach(visit);
  };
  visit(tree);
  return [...found].map(([name, us]) => ({ name, part: us / tree.total })).sort((a, b) => b.part - a.part);
}

const WIDTH = 1600;
const ROW = 17;
/** What is narrower is not drawn, in px. */
const NARROW = 0.4;

/** A flame graph: the callers are below, and the width is the time. */
function flame(tree, title) {
  const depthOf = ({ children }) => 1 + Math.max(0, ...children.map(depthOf));
  const height = (depthOf(tree) + 2) * ROW;
  const scale = WIDTH / tree.total;
  const boxes = [];
  const draw = ({ name, total, children }, x, depth) => {
    const width = total * scale;
    if (width < NARROW) return;
    const y = height - (depth + 1) * ROW;
    const shown = width > 30 ? escaped(name.slice(0, Math.floor(width / 6.5))) : '';
    const hue = [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 50, 7);
    boxes.push(
      `<g><title>${escaped(name)}: ${((100 * total) / tree.total).toFixed(2)} %</title>` +
        `<rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${ROW - 1}" fill="hsl(${hue} 85% 62%)"/>` +
        `<text x="${(x + 2).toFixed(1)}" y="${y + 12}">${shown}</text></g>`,
    );
    let at = x;
    for (const child of children.toSorted((a, b) => b.total - a.total)) {
      draw(child, at, depth + 1);
      at += child.total * scale;
    }
  };
  draw(tree, 0, 0);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="monospace" font-size="11">
<text x="4" y="13">${escaped(title)}</text>
${boxes.join('\n')}
</svg>
`;
}

const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
