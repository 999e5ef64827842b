// `npm run gate:doctor -- https://shop.example/checkout`: looks from outside whether the gate before a shop does what it should, and says what is
// missing. With `name=value` behind the address it sends the page's form with these fields, twice: that is a real order.
import { Stop, say, script } from './lib/say.mjs';
import { examine } from './lib/gate-doctor.mjs';

await script(async () => {
  const [address, ...given] = process.argv.slice(2);
  if (!/^https?:/.test(address) || !URL.canParse(address))
    throw new Stop('Name a page with a form: npm run gate:doctor -- https://shop.example/checkout');
  const pairs = given.map((pair) => pair.split(/=(.*)/s).slice(0, 2));
  if (pairs.some(({ length }) => length < 2)) throw new Stop('Fields are written name=value.');
  const lines = await examine(address, {
    fields: pairs.length > 0 ? Object.fromEntries(pairs) : undefined,
  }).catch((error) => {
    throw new Stop(`${address} does not answer: ${error.cause?.message ?? error.message}`);
  });
  for (const { ok, says } of lines) say(`  ${ok ? '✓' : '✗'} ${says}`);
  if (lines.some(({ ok }) => !ok)) process.exitCode = 1;
});
