// The browsers of the tests: the machine's own Chromium, or with BROWSER=firefox its own Firefox. Playwright drives Chromium by
// CDP, and an unpatched Firefox by WebDriver BiDi (the channel `moz-firefox`).

import { chromium, firefox } from 'playwright-core';

import { ownFolder } from '../../../scripts/lib/leftovers.mjs';

export const isFirefox = process.env.BROWSER === 'firefox';

const CHROMIUM_ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--in-process-gpu',
  '--disable-software-rasterizer',
];

const FIREFOX_PREFS = {
  // Every POST gets an Idempotency-Key of the browser's own, unless a script has set one.
  'network.http.idempotencyKey.enabled': true,
  // Somebody who is asked whether to send a form once more says yes.
  'dom.confirm_repost.testing.always_accept': true,
  // One process for all pages, and none in advance: each takes CPU time to start.
  'dom.ipc.keepProcessesAlive.web': 1,
  'dom.ipc.processCount': 1,
  'dom.ipc.processPrelaunch.enabled': false,
  'fission.webContentIsolationStrategy': 0,
  // Nothing goes out by itself.
  'app.normandy.enabled': false,
  'browser.safebrowsing.downloads.remote.enabled': false,
  'datareporting.policy.dataSubmissionEnabled': false,
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
  'toolkit.telemetry.enabled': false,
};

/** A home of their own, which goes with this process: they make folders there, whatever profile they are given. */
const environment = () => ({ ...process.env, HOME: ownFolder('home') });

/** Contexts of Firefox without JavaScript. */
const withoutScripts = new WeakSet();

const started = new Map();
let users = 0;

function start(name, launch) {
  if (!started.has(name)) started.set(name, launch());
  return started.get(name);
}

/** Browsers, each started when it is first needed. Files that run together share them; the last one that was read closes them. */
export function browsers() {
  users += 1;
  return {
    /**
     * Somebody with a browser of their own, or one without JavaScript. With `backForwardCache` it is as people have it, a whole Chromium with
     * that cache; without it, or where nothing is said, one that has no window of its own will do, which takes half of the processor's time.
     */
    async visit({ backForwardCache, javaScriptEnabled = true, colorScheme = 'light', ...options }) {
      if (!isFirefox) {
        const browser = await start(`${Boolean(backForwardCache)}`, () => launchChromium(backForwardCache));
        return browser.newContext({ javaScriptEnabled, colorScheme, ...options });
      }
      // BiDi cannot turn JavaScript off for one context, nor the lights.
      const people = [backForwardCache ?? true, javaScriptEnabled, colorScheme];
      const browser = await start(people.join(' '), () => launchFirefox(...people));
      const context = await browser.newContext(options);
      if (!javaScriptEnabled) withoutScripts.add(context);
      return context;
    },
    async close() {
      users -= 1;
      if (users > 0) return;
      const open = [...started.values()];
      started.clear();
      await Promise.all(open.map(async (browser) => (await browser).close()));
    },
  };
}

const launchChromium = (backForwardCache) => {
  const whole = process.env.CHROMIUM || '/usr/bin/chromium';
  const withoutWindow = process.env.CHROMIUM_HEADLESS_SHELL || whole;
  return chromium.launch({
    executablePath: backForwardCache ? whole : withoutWindow,
    args: CHROMIUM_ARGS,
    env: environment(),
    // Playwright turns it off, and people have it on.
    ignoreDefaultArgs: backForwardCache ? ['--disable-back-forward-cache'] : [],
  });
};

const launchFirefox = (backForwardCache, javaScriptEnabled, colorScheme) =>
  firefox.launch({
    executablePath: process.env.FIREFOX || '/usr/bin/firefox-esr',
    channel: 'moz-firefox',
    env: environment(),
    firefoxUserPrefs: {
      ...FIREFOX_PREFS,
      'browser.sessionhistory.max_total_viewers': backForwardCache ? -1 : 0,
      'javascript.enabled': javaScriptEnabled,
      'layout.css.prefers-color-scheme.content-override': colorScheme === 'dark' ? 0 : 1,
    },
  });

/**
 * Firefox without JavaScript runs no animation frames, not even those by which Playwright waits until a button or a field
 * stands still: there it acts as soon as that is to be seen.
 */
export function actWithoutFrames(page) {
  const { prototype } = page.locator('html').constructor;
  if (!isFirefox || prototype.actsWithoutFrames) return;
  prototype.actsWithoutFrames = true;
  const replace = (name, act) => {
    const withFrames = prototype[name];
    prototype[name] = async function (...args) {
      if (!withoutScripts.has(this.page().context())) return withFrames.apply(this, args);
      await this.waitFor();
      return act(this, withFrames, ...args);
    };
  };
  for (const name of ['click', 'dblclick', 'check'])
    replace(name, (locator, act, options) => act.call(locator, { force: true, ...options }));
  replace('fill', (locator, _, text) => locator.evaluate((input, text) => (input.value = text), text));
  replace('selectOption', (locator, _, value) =>
    locator.evaluate((select, value) => {
      select.value = value;
      if (select.value !== value) throw new Error(`There is no option ${value}.`);
    }, value),
  );
}
