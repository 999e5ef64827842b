// The demo as the tests start it, for a client of its own: prints its address, serves until it is told to end. Who has TOKEN is
// an account, and the operator too, so that one client reaches every address.
import { createHash } from 'node:crypto';

import { startSite } from '../../tests/worker/support/harness.mjs';

const { TOKEN } = process.env;
const account = {
  token_sha256: createHash('sha256').update(TOKEN).digest('hex'),
  payment_method: 'pm_card_visa',
  adyen: { payment_method: 'adyen_card_visa', customer: 'schemathesis' },
};
const site = await startSite({
  secrets: { ADMIN_TOKEN: TOKEN, API_ACCOUNTS: JSON.stringify({ schemathesis: account }) },
});
process.once('SIGTERM', async () => {
  await site.close();
  process.exit();
});
console.log(`listening at ${site.url.origin}`);
