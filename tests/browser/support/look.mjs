// A page in light and dark, narrow and wide: nothing may stick out, and axe may find nothing.
//
// Axe reads markup and computed styles. What it finds can depend on the width, and with its rules about colours on the colour
// scheme: in dark these alone are run. Firefox has the same markup and layout rules as Chromium, and form controls of its
// own: there axe is run at one width. And BiDi cannot turn its lights off: there is no dark.
//
// `SCREENSHOTS=1` also leaves pictures of all of them in `.wrangler/screenshots/`.

import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

import { isFirefox } from './browsers.mjs';

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const PICTURES =
  process.env.SCREENSHOTS && fileURLToPath(new URL('../../../.wrangler/screenshots/', import.meta.url));
const WIDTHS = { narrow: { width: 320, height: 740 }, wide: { width: 1280, height: 800 } };
const SCHEMES = isFirefox ? ['light'] : ['light', 'dark'];
const COLOUR_RULES = ['color-contrast', 'link-in-text-block'];

if (PICTURES) await mkdir(PICTURES, { recursive: true });

export async function look(page, name, { title = /\S – Paid Once$/ } = {}) {
  // Who asks before they are there gets a layout without the style sheets; and none comes from a cache while a test routes requests.
  await page.waitForLoadState('load');
  assert.equal(await page.locator('h1').count(), 1);
  assert.match(await page.title(), title);
  await page.evaluate(AXE);
  for (const [width, size] of Object.entries(WIDTHS)) {
    await page.setViewportSize(size);
    for (const colorScheme of SCHEMES) {
      await page.emulateMedia({ colorScheme });
      await sticksNotOut(page, `${name}, ${width} ${colorScheme}`);
      if (!isFirefox || width === 'narrow')
        await axeFindsNothing(
          page,
          `${name}, ${width} ${colorScheme}`,
          colorScheme === 'dark' && COLOUR_RULES,
        );
      if (PICTURES) {
        const file = `${name.replaceAll(/[^a-z]+/g, '-')}-${width}-${colorScheme}.png`;
        await page.screenshot({ path: `${PICTURES}${file}`, fullPage: true });
      }
    }
  }
}

/** Nothing of the page is wider than the window. */
export async function sticksNotOut(page, variant) {
  const [content, window] = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return [scrollWidth, clientWidth];
  });
  assert.ok(content <= window, `${variant}: ${content} px wide in ${window} px`);
  const wide = await page.evaluate(() => {
    const main = document.querySelector('main');
    const edge = main.getBoundingClientRect().right - parseFloat(getComputedStyle(main).paddingRight);
    // What scrolls by itself may be wider.
    const isCut = (node) =>
      node !== main && (getComputedStyle(node).overflowX !== 'visible' || isCut(node.parentElement));
    return [...main.querySelectorAll('input, select, textarea, button, dd, .sum, .card-effect')]
      .filter((field) => field.checkVisibility() && field.getBoundingClientRect().right > edge + 1)
      .filter((field) => !isCut(field.parentElement))
      .map(({ outerHTML }) => outerHTML.slice(0, 120));
  });
  assert.deepEqual(wide, [], `${variant}: wider than the page`);
}

/** Runs the rules named, or all. */
async function axeFindsNothing(page, variant, only) {
  const violations = await page.evaluate(async (only) => {
    // axe would preload imported style sheets, and put them where the policy forbids it.
    const options = { resultTypes: ['violations'], preload: false, ...(only && { runOnly: only }) };
    const { violations } = await window.axe.run(document, options);
    return violations.map(
      ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`,
    );
  }, only);
  assert.deepEqual(violations, [], variant);
}
