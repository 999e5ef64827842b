// The pages of the desk as they are measured in a large shop.

/** What a person looks at: every page with a list, and each way to search it. */
export const PAGES = [
  ...['/admin?range=hour', '/admin?range=day', '/admin?range=week'],
  ...[
    '',
    '?page=3',
    '?status=paid',
    '?status=not_paid',
    '?status=undecided',
    '?status=called_off',
    '?status=ending',
  ].map((query) => `/admin/payments${query}`),
  ...['declined', 'expired', 'disputed'].map((status) => `/admin/payments?status=${status}`),
  ...[
    'order-77',
    'pi_shop_77',
    're_shop_40',
    're_at_40',
    'shop-7',
    'insufficient_funds',
    'nothing',
    '7K3M-9QXD',
  ].map((text) => `/admin/payments?q=${text}`),
  ...['/admin/payments?q=shop-1&status=declined', '/admin/payments?q=shop-1&status=paid'],
  ...[
    '/admin/payments?q=insufficient_funds&status=declined',
    '/admin/payments?q=insufficient_funds&status=paid',
  ],
  '/admin/payments.csv',
  ...[
    '',
    '?state=open',
    '?state=late',
    '?state=finished',
    '?q=shop-7',
    `?q=${'a'.repeat(64)}`,
    '?q=some-key',
  ].map((query) => `/admin/keys${query}`),
  ...[
    '',
    '?q=somebody-3',
    '?q=nobody',
    '?of=effects',
    '?of=effects&q=refund.succeeded',
    '?of=effects&q=nobody',
  ].map((query) => `/admin/audit${query}`),
  ...[
    '/admin/dead-letters',
    '/admin/breaks',
    '/admin/breaks?state=repaired',
    '/admin/history',
    '/admin/settlement',
    '/admin/stats',
    '/metrics',
  ],
];
