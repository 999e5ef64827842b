// A Chromium and a Firefox for the browser tests. They drive the machine's own: playwright's would be a download of 300 MB each.
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import { ask } from '../lib/run.mjs';
import { Stop } from '../lib/say.mjs';
import { asRoot } from './apt.mjs';

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
    wanted: 'Firefox 135 or newer',
  },
];

export async function setUpBrowsers() {
  for (const browser of browsers) await setUpBrowser(browser);
}

async function setUpBrowser({ title, variable, names, macPath, debian, wanted }) {
  const find = () => {
    const onPath = process.env.PATH.split(delimiter).flatMap((dir) => names.map((name) => join(dir, name)));
    return [...onPath, macPath].find((file) => existsSync(file)) ?? '';
  };
  process.env[variable] ||= find();
  if (!process.env[variable]) {
    if (!(await isInApt(debian)))
      throw new Stop(
        `The browser tests need ${wanted}: install it, or say where it is with ${variable}=/path/to/it`,
      );
    await asRoot(title, ['apt-get', 'install', '--yes', '--no-install-recommends', debian]);
    process.env[variable] = find();
  }
  if (!existsSync(process.env[variable]))
    throw new Stop(`There is no browser at ${variable}=${process.env[variable]}`);
}

/** Whether apt is here and has the package, with its lists as new as need be. */
async function isInApt(name) {
  if (ask('apt-get', ['--version']) === null) return false;
  if (ask('apt-cache', ['show', name]) === null) await asRoot('apt package lists', ['apt-get', 'update']);
  return ask('apt-cache', ['show', name]) !== null;
}
