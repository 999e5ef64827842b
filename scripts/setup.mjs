// `npm run setup`: makes a fresh clone able to build, run and test. Each step looks first and works only for what is missing, so that
// the second time costs a moment. Everything lands in node_modules/ and .tools/.
import { delimiter } from 'node:path';
import { pathToFileURL } from 'node:url';

import { inRoot, inTools } from './lib/paths.mjs';
import { endOnSignals } from './lib/run.mjs';
import { say, script, seconds } from './lib/say.mjs';
import { setUpBindgen } from './setup/bindgen.mjs';
import { checkNodeVersion, setUpNode } from './setup/node.mjs';
import { setUpBrowsers } from './setup/browser.mjs';
import { setUpRust } from './setup/rust.mjs';

/**
 * After this, `process.env` is what every child needs: Node 22 first on PATH, a Rust toolchain that knows wasm, and
 * the tool that binds WebAssembly to JavaScript. `lints` and `browser` (Chromium and Firefox) are for the tests only.
 */
export async function setUp({ lints = false, browser = false } = {}) {
  const started = Date.now();
  checkNodeVersion();
  const node = setUpNode().then(() => putFirstOnPath(inRoot('node_modules', '.bin')));
  const rust = setUpRust({ lints });
  // Debian's Rust comes by apt, as browsers do: one at a time.
  const browsers = Promise.all([node, rust]).then(() => browser && setUpBrowsers());
  await allOf([node, rust, rust.then(setUpBindgen), browsers]);
  setBuildEnvironment();
  say(`Set-up is complete (${seconds(Date.now() - started)}).`);
}

/** All of them; what one fails of is said when the others have ended. */
async function allOf(steps) {
  const failed = (await Promise.allSettled(steps)).find(({ status }) => status === 'rejected');
  if (failed) throw failed.reason;
}

function putFirstOnPath(dir) {
  process.env.PATH = [dir, ...process.env.PATH.split(delimiter).filter((entry) => entry !== dir)].join(
    delimiter,
  );
}

function setBuildEnvironment() {
  // Both crates share one target folder: what they have in common is compiled once, while their profiles agree.
  process.env.CARGO_TARGET_DIR ??= inRoot('target');

  // wrangler: no questions, no telemetry, and nothing of it in the home folder or shared with other projects.
  process.env.WRANGLER_SEND_METRICS ??= 'false';
  process.env.WRANGLER_LOG_PATH ??= inRoot('.wrangler', 'logs');
  process.env.WRANGLER_REGISTRY_PATH ??= inRoot('.wrangler', 'registry');
  process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= 'false';
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  endOnSignals({ exitCode: 130 });
  await script(() => setUp({ lints: true, browser: true }));
}
