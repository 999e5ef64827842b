// Which files of tests run in one process, and which begin: scripts/test/suites.mjs makes suites of it.

/** Files of tests/worker that share their Workers when all of them are to run: to start these takes longer than most tests. */
const sharingWorkers = {
  'without patience for providers': [
    'payments-problems',
    'payments-unknown',
    'payments-unknown-moves',
    'payments-adyen',
    'refused-since',
  ],
  'with the settings of the demo': [
    'idempotency-keys',
    'lab-page',
    'payments-keys',
    'payments-natural',
    'payments-states',
    'rides-api',
    'rides-form',
    'site',
  ],
  'without an alarm in between': ['outcomes', 'ride-page'],
  "with the operator's secret": [
    'bodies',
    'guide',
    'desk-csv',
    'desk-confirm',
    'desk-overview',
    'desk-repairs',
  ],
  'with a provider that is given up after a second': ['payments-bank', 'docs'],
  'with a shop of another origin': ['manners', 'browser-key'],
  // Those that start it only when they begin stand first: it runs as long as a later one waits for it.
  'the simulator alone': [
    'simulator-dashboard',
    'simulator-mailbox',
    'simulator-messages',
    'simulator-accounts',
    'simulator-cards',
    'simulator-customers',
  ],
  'the simulator and its caller': ['simulator-adyen', 'simulator', 'simulator-payments'],
};
/** Files of tests/worker that run in one process, too, one after the other, with Workers of their own each: every process loads wrangler. */
const workersInTurn = {
  'keys of shops': ['own-keys', 'own-adyen-keys', 'own-adyen-keys-webhooks', 'stripe-account'],
  reconciliation: ['reconcile-accounts', 'reconcile-apart', 'reconcile-cron', 'reconcile-unanswered'],
  webhooks: [
    ...['own-keys-webhooks', 'webhooks', 'webhooks-elsewhere', 'webhooks-overtaken', 'webhooks-inbox'],
    ...['webhooks-shards', 'webhook-events', 'webhook-deliveries'],
  ],
  desk: ['desk', 'desk-access', 'analytics', 'metrics', 'plots', 'traces'],
  shards: ['shards', 'desk-shards', 'reconcile-rounds', 'history-shards'],
  'payments that end later': [
    'payments-stripe-later',
    'payments-adyen-later',
    'alarm',
    'recovery',
    'rides-recovery',
    'sweep',
  ],
  accounts: [
    'account-frozen',
    'account-lowered',
    'account-unread',
    'accounts',
    'accounts-closed',
    'customers',
    'keys',
    'secrets',
  ],
  checkout: [
    'abuse-checkout',
    'checkout-language',
    'checkout',
    'checkout-bank',
    'checkout-links',
    'checkout-reserved',
    'card',
  ],
  payments: [
    ...['payments-alarm', 'payments-privacy', 'payments-retention', 'payments-sums', 'concurrency'],
    ...['provider-faults', 'payments-list', 'rollout'],
  ],
  'settlement and history': [
    ...['history', 'settlement', 'settle-by-hand', 'retention', 'settlement-parts', 'history-batch'],
  ],
  gate: [
    ...['gate-troubles', 'gate-large', 'gate-command', 'gate-desk', 'gate', 'gate-edges', 'gate-doctor'],
    ...['gate-pages', 'gate-zone', 'gate-cancelled', 'gate-says', 'gate-limit'],
    ...['gate-clients', 'gate-uploads', 'gate-answers'],
  ],
  'simulator, apart': ['simulator-webhooks', 'simulator-types', 'simulator-adyen-keys'],
  "Adyen's reports": ['own-adyen-reports', 'adyen-report-fetch', 'adyen-report'],
  'settings and limits': ['abuse-edge', 'configuration', 'desk-counts', 'receipts-refused', 'runtime-log'],
};
/** The same of each folder. In a browser's, files that are together share the browsers, and have a site of their own each. */
export const together = {
  worker: sharingWorkers,
  browser: {
    'paying and all pages': ['pages', 'pay', 'own-key'],
    'checkout and trouble': ['checkout', 'trouble', 'card'],
    'desk and lab': ['desk', 'desk-live', 'lab'],
  },
};
export const inTurn = {
  worker: workersInTurn,
  browser: { 'gate and accounts': ['gate', 'gate-desk', 'gate-doctor', 'accounts'] },
};
/**
 * What Firefox does in its own way, by the names of the tests: a second click while the first one is under way, ways back and reloads that
 * bring a used form again, and the key that it adds by itself. `npm test -- thorough` has it do all that Chromium does.
 */
export const firefoxDiffers = {
  files: ['own-key', 'pay', 'trouble'],
  tests: [
    ...['double click', 'pressing twice', 'two clicks', 'back to ', 'a reload while'],
    ...['in the middle of a payment', 'used key', 'another one pay an order once'],
  ],
};
/** Those of cargo's that take longest: they begin. */
export const longOfCargo = ['simulation', 'model'];
/** Those of tests/worker that take longest by themselves, in this order: they begin, so that none is left over alone. */
export const longest = ['queues', 'reconcile', 'reconcile-shards', 'jobs'];
/** And those that take longer than the others that are left then. */
export const long = ['statements', 'replay-cache', 'settlement-shards'];
