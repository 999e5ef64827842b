// A Chromium for the browser tests. They drive the machine's own: a download of playwright's would be 300 MB.
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import { ask } from '../lib/run.mjs';
import { Stop } from '../lib/say.mjs';
import { asRoot } from './apt.mjs';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const macPath = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome';

/** The tests find the browser in the variable CHROMIUM. */
export async function setUpBrowser() {
  process.env.CHROMIUM ||= find();
  if (!process.env.CHROMIUM) {
    if (ask('apt-get', ['--version']) === null) {
      throw new Stop(
        'The browser tests need Chromium or Chrome: install one, or say where it is with CHROMIUM=/path/to/it',
      );
    }
    await installByApt();
    process.env.CHROMIUM = find();
  }
  if (!existsSync(process.env.CHROMIUM))
    throw new Stop(`There is no browser at CHROMIUM=${process.env.CHROMIUM}`);
}

async function installByApt() {
  if (ask('apt-cache', ['show', 'chromium']) === null)
    await asRoot('apt package lists', ['apt-get', 'update']);
  await asRoot('Chromium', ['apt-get', 'install', '--yes', '--no-install-recommends', 'chromium']);
}

function find() {
  const onPath = process.env.PATH.split(delimiter).flatMap((dir) => names.map((name) => join(dir, name)));
  return [...onPath, macPath].find((file) => existsSync(file)) ?? '';
}
