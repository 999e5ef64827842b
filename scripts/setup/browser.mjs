// A Chromium and a Firefox for the browser tests. They drive the machine's own: playwright's would be a download of 300 MB each.
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import { ask } from '../lib/run.mjs';
import { Stop, say } from '../lib/say.mjs';
import { asRoot, isRoot } from './apt.mjs';

/** The tests find each in its variable. */
const browsers = [
  {
    title: 'Chromium',
    variable: 'CHROMIUM',
    names: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
    macPath: '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
    debian: 'chromium',
    wanted: 'Chromium or Chrome',
  },
  {
    title: 'Firefox',
    variable: 'FIREFOX',
    names: ['firefox-esr', 'firefox'],
    macPath: '/Applications/Firefox.app/Contents/MacOS/firefox',
    debian: 'firefox-esr',
    // What Playwright asks of WebDriver BiDi (`network.addDataCollector`) is there since then.
    least: 143,
    wanted: 'Firefox 143 or newer',
  },
];

/** The same Chromium without windows: its tests take half of the processor's time with it, and none needs it. */
const headlessShell = {
  title: 'Chromium without windows',
  variable: 'CHROMIUM_HEADLESS_SHELL',
  names: ['chromium-headless-shell', 'chrome-headless-shell'],
  debian: 'chromium-headless-shell',
};

export async function setUpBrowsers() {
  for (const browser of browsers) await setUpBrowser(browser);
  await setUpHeadlessShell(headlessShell);
}

/** Where it cannot be had without a question Chromium itself does its work. */
async function setUpHeadlessShell({ title, variable, names, debian }) {
  process.env[variable] ||= onPath(names);
  if (process.env[variable] || !isRoot() || ask('apt-cache', ['show', debian]) === null) return;
  try {
    await asRoot(title, ['apt-get', 'install', '--yes', '--no-install-recommends', debian]);
  } catch (error) {
    say(error.message);
  }
  process.env[variable] = onPath(names);
}

const onPath = (names) =>
  process.env.PATH.split(delimiter)
    .flatMap((dir) => names.map((name) => join(dir, name)))
    .find((file) => existsSync(file)) ?? '';

async function setUpBrowser({ title, variable, names, macPath, debian, least = 0, wanted }) {
  const find = () => onPath(names) || (existsSync(macPath) ? macPath : '');
  const isChosen = Boolean(process.env[variable]);
  process.env[variable] ||= find();
  if (isChosen && !existsSync(process.env[variable]))
    throw new Stop(`There is no browser at ${variable}=${process.env[variable]}`);
  if (isNewEnough(process.env[variable], least)) return;
  const problem = `The browser tests need ${wanted}: install it, or say where it is with ${variable}=/path/to/it`;
  if (isChosen || !(await isInApt(debian))) throw new Stop(problem);
  await asRoot(title, ['apt-get', 'install', '--yes', '--no-install-recommends', debian]);
  process.env[variable] = find();
  if (!isNewEnough(process.env[variable], least)) throw new Stop(problem);
}

/** Whether a browser is there, of this major version or a later one. */
function isNewEnough(file, least) {
  if (!existsSync(file)) return false;
  if (least === 0) return true;
  const [, major] = /(\d+)\./.exec(ask(file, ['--version']) ?? '') ?? [];
  return Number(major) >= least;
}

/** Whether apt is here and has the package. Its lists are as old as the machine's image, and so would be the browser. */
async function isInApt(name) {
  if (ask('apt-get', ['--version']) === null) return false;
  // A list that cannot be fetched may be another one's than the browser's.
  await asRoot('apt package lists', ['apt-get', 'update']).catch((error) => say(error.message));
  return ask('apt-cache', ['show', name]) !== null;
}
