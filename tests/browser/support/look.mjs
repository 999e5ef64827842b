// A page in light and dark, narrow and wide: nothing may stick out, and axe may find nothing.
//
// `SCREENSHOTS=1` also leaves pictures of all of them in `.wrangler/screenshots/`.

import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const PICTURES =
  process.env.SCREENSHOTS && fileURLToPath(new URL('../../../.wrangler/screenshots/', import.meta.url));
const WIDTHS = { narrow: { width: 360, height: 740 }, wide: { width: 1280, height: 800 } };

if (PICTURES) await mkdir(PICTURES, { recursive: true });

export async function look(page, name) {
  assert.equal(await page.locator('h1').count(), 1);
  assert.match(await page.title(), /\S – Paid Once$/);
  await page.evaluate(AXE);
  for (const [width, size] of Object.entries(WIDTHS)) {
    await page.setViewportSize(size);
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await sticksNotOut(page, `${name}, ${width} ${colorScheme}`);
      await axeFindsNothing(page, `${name}, ${width} ${colorScheme}`);
      if (PICTURES) {
        const file = `${name.replaceAll(/[^a-z]+/g, '-')}-${width}-${colorScheme}.png`;
        await page.screenshot({ path: `${PICTURES}${file}`, fullPage: true });
      }
    }
  }
}

async function sticksNotOut(page, variant) {
  const [content, window] = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return [scrollWidth, clientWidth];
  });
  assert.ok(content <= window, `${variant}: ${content} px wide in ${window} px`);
}

async function axeFindsNothing(page, variant) {
  const violations = await page.evaluate(async () => {
    // The status page loads itself again, so that it works without JavaScript: rule 2.2.1 means time limits.
    const rules = { 'meta-refresh': { enabled: false } };
    // axe would preload imported style sheets, and put them where the policy forbids it.
    const options = { resultTypes: ['violations'], rules, preload: false };
    const { violations } = await window.axe.run(document, options);
    return violations.map(
      ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`,
    );
  });
  assert.deepEqual(violations, [], variant);
}
