// A Vendure shop as its documentation makes one, with a mug: `node shop.cjs PORT FOLDER [populate]`. Its database is a file in FOLDER.
const { join } = require('node:path');

const { bootstrap, DefaultLogger, dummyPaymentHandler, LogLevel } = require('@vendure/core');
const { populate } = require('@vendure/core/cli');

const [, , port, home, task] = process.argv;

const config = {
  apiOptions: {
    port: Number(port),
    hostname: '127.0.0.1',
    adminApiPath: 'admin-api',
    shopApiPath: 'shop-api',
  },
  authOptions: {
    tokenMethod: ['bearer'],
    superadminCredentials: { identifier: 'operator', password: 'a password of a test' },
    cookieOptions: { secret: 'a secret of a test' },
  },
  dbConnectionOptions: {
    type: 'sqljs',
    synchronize: true,
    autoSave: true,
    location: join(home, 'shop.sqlite3'),
  },
  paymentOptions: { paymentMethodHandlers: [dummyPaymentHandler] },
  importExportOptions: { importAssetsDir: home },
  logger: new DefaultLogger({ level: LogLevel.Error }),
};

const initialData = {
  defaultLanguage: 'en',
  defaultZone: 'Europe',
  countries: [{ name: 'Austria', code: 'AT', zone: 'Europe' }],
  taxRates: [{ name: 'Standard Tax', percentage: 20 }],
  shippingMethods: [{ name: 'Standard', price: 500 }],
  paymentMethods: [
    {
      name: 'Dummy',
      handler: { code: 'dummy-payment-handler', arguments: [{ name: 'automaticSettle', value: 'true' }] },
    },
  ],
  collections: [],
};

async function main() {
  if (task !== 'populate') return bootstrap(config);
  const app = await populate(() => bootstrap(config), initialData, join(__dirname, 'products.csv'));
  await app.close();
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
