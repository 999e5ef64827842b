// Draws static/preview.png, which a link to the demo shows in a message, from preview.svg: `node scripts/preview.mjs` after a change of it.
// The picture is committed, so no build needs a browser.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { crc32, deflateSync } from 'node:zlib';

import { chromium } from 'playwright-core';

import { inRoot } from './lib/paths.mjs';
import { Stop, say, script } from './lib/say.mjs';

/** As the page says in `og:image:width` and `og:image:height`. */
const SIZE = { width: 1200, height: 630 };
/** Some services do not show what is larger. */
const MAX_BYTES = 60_000;

await script(async () => {
  const drawing = readFileSync(fileURLToPath(new URL('preview.svg', import.meta.url)), 'utf8');
  const file = inRoot('static', 'preview.png');
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  try {
    const page = await browser.newPage({ viewport: SIZE });
    await page.setContent(`<style>body { margin: 0 } svg { display: block }</style>${drawing}`);
    const png = encoded(await pixels(page));
    if (png.length > MAX_BYTES) throw new Stop(`The picture has ${png.length} bytes: at most ${MAX_BYTES}.`);
    writeFileSync(file, png);
    say(`static/preview.png: ${png.length} bytes`);
  } finally {
    await browser.close();
  }
});

/** The picture's pixels, as red, green and blue. */
async function pixels(page) {
  const screenshot = (await page.screenshot()).toString('base64');
  const read = await page.evaluate(async (base64) => {
    const blob = await (await fetch(`data:image/png;base64,${base64}`)).blob();
    const picture = await createImageBitmap(blob);
    const canvas = new OffscreenCanvas(picture.width, picture.height).getContext('2d');
    canvas.drawImage(picture, 0, 0);
    const { data } = canvas.getImageData(0, 0, picture.width, picture.height);
    return [...data].filter((_, at) => at % 4 !== 3);
  }, screenshot);
  return Buffer.from(read);
}

/** A PNG without filters and packed as well as can be: of flat colours it is a fraction of what a browser writes. */
function encoded(rgb) {
  const width = SIZE.width * 3;
  const rows = Array.from({ length: SIZE.height }, (_, y) => [
    Buffer.of(0),
    rgb.subarray(y * width, (y + 1) * width),
  ]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(SIZE.width, 0);
  head.writeUInt32BE(SIZE.height, 4);
  head.set([8, 2, 0, 0, 0], 8); // 8 bits of each of three colours
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', head),
    chunk('IDAT', deflateSync(Buffer.concat(rows.flat()), { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(name, data) {
  const content = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const around = Buffer.alloc(8);
  around.writeUInt32BE(data.length, 0);
  around.writeUInt32BE(crc32(content), 4);
  return Buffer.concat([around.subarray(0, 4), content, around.subarray(4)]);
}
