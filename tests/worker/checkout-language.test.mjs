// The checkout in the reader's language: which one it is, that no page mixes two, and that amounts and times are written by its rules.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { SIGNING_KEY } from './support/harness.mjs';
import { jobsOver } from './support/jobs.mjs';
import { expired } from './support/order-link.mjs';
import { BANK, DECLINED, GOOD, heading, order, startCheckout } from './support/shopper.mjs';

const { site, merchant, makeLink, newOrder, open, pay } = await startCheckout();

const LOCALES = ['en', 'de', 'fr', 'es', 'ja'];
const FORM = {
  en: 'Your order',
  de: 'Ihre Bestellung',
  fr: 'Votre commande',
  es: 'Su pedido',
  ja: 'ご注文内容',
};
const RECEIPT = {
  en: 'Thank you for your order',
  de: 'Vielen Dank für Ihre Bestellung',
  fr: 'Merci pour votre commande',
  es: 'Gracias por su pedido',
  ja: 'ご注文ありがとうございます',
};
const DECLINE = {
  de: 'Ihre Karte wurde abgelehnt',
  fr: 'Votre carte a été refusée',
  es: 'Su tarjeta ha sido rechazada',
  ja: 'カードが拒否されました',
};
const EXPIRED = {
  de: 'Dieser Link ist abgelaufen',
  fr: 'Ce lien a expiré',
  es: 'Este enlace ha caducado',
  ja: 'このリンクは有効期限が切れています',
};
const BANKS = {
  de: 'Ihre Bank möchte sichergehen, dass Sie es sind',
  fr: 'Votre banque veut s’assurer que c’est bien vous',
  es: 'Su banco quiere comprobar su identidad',
  ja: 'カード会社によるご本人確認が必要です',
};
/** Words of the English pages that are in no other language. */
const ENGLISH =
  /(?<!\p{L})(the|your|paid|pay|order|card|nothing|charged|item|quantity|amount|receipt|details|reference|again|skip|request|start|back)(?!\p{L})/giu;

const speaker = (language) => browser(site, undefined, language ? { 'accept-language': language } : {});

/** What a person reads on a page, without what others wrote. */
const wordsOf = ({ text }) =>
  text
    .replace(/^[^]*<title>/, '')
    .replaceAll(/<nav[^]*?<\/nav>|<code>[^]*?<\/code>|<(td|p)[^>]*class="(item|shop)"[^]*?<\/\1>/g, ' ')
    .replaceAll(/<[^>]*\s(?:alt|aria-label)="([^"]*)"[^>]*>/g, ' $1 ')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll('Paid Once', '')
    .replaceAll(/[\w.]+@[\w.]+/g, '');

/** The page is in this language, and says so to whoever does not read. */
function assertIn(page, locale) {
  assert.match(page.text, new RegExp(`<html lang="${locale}">`));
  assert.equal(page.header('content-language'), locale);
  assert.match(page.header('vary') ?? '', /Accept-Language/i);
  assert.match(page.text, /<nav [^>]*lang="en"/, 'the demo’s own navigation is English');
  if (locale !== 'en') assert.deepEqual(wordsOf(page).match(ENGLISH) ?? [], [], wordsOf(page));
}

describe('the language of an order’s page', () => {
  const asked = {
    de: 'de',
    'de-CH, en;q=0.5': 'de',
    'it, fr;q=0.8, de;q=0.9': 'de',
    'fr-CA;q=0.9': 'fr',
    'es-419': 'es',
    'ja,en-US;q=0.9,en;q=0.8': 'ja',
    'it, pt': 'en',
    'de;q=0, it': 'en',
  };
  for (const [header, locale] of Object.entries(asked)) {
    test(`is the best that a browser asks for: ${header}`, async () => {
      const page = await speaker(header).visit(await newOrder());
      assert.equal(heading(page), FORM[locale]);
      assertIn(page, locale);
    });
  }

  test('is English if the browser asks for none', async () => {
    const page = await speaker().visit(await newOrder());
    assert.equal(heading(page), FORM.en);
    assertIn(page, 'en');
  });

  for (const locale of LOCALES) {
    test(`is the shop’s, if it has said one: ${locale}`, async () => {
      const made = await makeLink(order({ locale }));
      assert.equal(made.json().locale, locale);
      const page = await speaker(locale === 'ja' ? 'de' : 'ja').visit(new URL(made.json().url).pathname);
      assert.equal(heading(page), FORM[locale]);
      assertIn(page, locale);
    });
  }

  test('makes no other link: the order has the same revision', async () => {
    const asked = order();
    const revisions = [];
    for (const locale of ['auto', 'de', 'ja', undefined])
      revisions.push((await makeLink({ ...asked, locale })).json().revision);
    assert.deepEqual(revisions, [1, 1, 1, 1]);
  });

  test('is told to the shop that asks for another one, as what it may be', async () => {
    for (const locale of ['it', 'DE', 'de-AT', '', 5, ['de']]) {
      const refused = await merchant.post('/checkout/sessions', order({ locale }));
      assert.equal(refused.status, 422, JSON.stringify(locale));
      const [{ field, message }] = refused.json().errors;
      assert.equal(field, 'locale');
      assert.match(message, /auto.*en, de, fr, es and ja/);
    }
  });
});

for (const locale of LOCALES.slice(1)) {
  describe(`every page of an order, in ${locale}`, () => {
    const visitor = speaker(locale);
    const visit = async (more) => {
      const path = await newOrder({ return_url: 'https://shop.example/thanks', ...more });
      const page = await visitor.visit(path);
      assertIn(page, locale);
      return { visitor, path, form: page.entries };
    };

    test('declined, what was left out, and the receipt with what was given back', async () => {
      const opened = await visit();
      const declined = await pay(opened, DECLINED);
      assertIn(declined, locale);
      assert.ok(declined.text.includes(DECLINE[locale]));
      const wrong = await visitor.send(opened.path, {
        ...declined.entries,
        payment_method: '',
        email: 'nobody',
      });
      assert.equal(wrong.status, 422);
      assertIn(wrong, locale);
      const edited = await visitor.send(opened.path, { ...opened.form, payment_method: GOOD });
      assertIn(await visitor.follow(edited), locale);
      const receipt = await pay({ ...opened, form: declined.entries });
      assertIn(receipt, locale);
      assert.equal(heading(receipt), RECEIPT[locale]);
      const payment = /pay_[\w-]{43}/.exec(receipt.text)[0];
      await merchant.post(`/payments/${payment}/refunds`, { amount: 900 });
      assertIn(await visitor.visit(opened.path), locale);
      await merchant.post(`/payments/${payment}/refunds`, {});
      const refunded = await visitor.visit(opened.path);
      assertIn(refunded, locale);
      assert.notEqual(heading(refunded), RECEIPT[locale]);
    });

    test('the bank’s step, and given up', async () => {
      const opened = await visit();
      const bank = await pay(opened, BANK);
      assertIn(bank, locale);
      assert.equal(heading(bank), BANKS[locale]);
      const given = await visitor.send(opened.path, { ...bank.entries, another_card: '1' });
      assertIn(await visitor.follow(given), locale);
    });

    test('not known yet', async () => {
      const opened = await visit();
      await site.simulator.fault('response_lost', { count: 1000 });
      const sent = await visitor.send(opened.path, { ...opened.form, payment_method: GOOD });
      assertIn(await visitor.follow(sent), locale);
      await site.simulator.calm();
    });

    test('expired, replaced, ended, broken', async () => {
      const { path } = await visit();
      const gone = await visitor.visit(expired(path, SIGNING_KEY));
      assert.equal(heading(gone), EXPIRED[locale]);
      assert.equal(gone.status, 410);
      assertIn(gone, locale);
      const order_id = freshKey();
      const old = await newOrder({ order_id });
      await newOrder({ order_id, lines: [{ name: '7', unit_amount: 700, quantity: 1 }] });
      assertIn(await visitor.visit(old), locale);
      const ended = await newOrder({ order_id: `${order_id}-2` });
      await merchant.post(`/checkout/sessions/${order_id}-2/expire`, {});
      assertIn(await visitor.visit(ended), locale);
      const broken = await visitor.visit(`${path.slice(0, -1)}`);
      assert.equal(broken.status, 404);
      assertIn(broken, locale);
    });

    test('a form of another site, one that cannot be read, and back from the bank without an order', async () => {
      const { path, form } = await visit();
      const foreign = await visitor.send(path, form, { origin: 'https://evil.example' });
      assert.equal(foreign.status, 403);
      assertIn(foreign, locale);
      const unread = await visitor.send(path, form, { 'content-type': 'text/plain' });
      assert.equal(unread.status, 415);
      assertIn(unread, locale);
      const back = await visitor.visit('/payments/pay_x/return');
      assert.equal(back.status, 404);
      assertIn(back, locale);
    });
  });
}

describe('a form that is refused before it is read', () => {
  const refused = {
    'of another site': [{ origin: 'https://evil.example' }, 403, 'This form belongs to another site'],
    'that cannot be read': [{ 'content-type': 'text/plain' }, 415, 'This form cannot be read'],
  };
  for (const [what, [headers, status, title]] of Object.entries(refused)) {
    test(`${what} is told in the order’s language, and leads to the order`, async () => {
      const path = await newOrder({ locale: 'de', return_url: 'https://shop.example/thanks' });
      const answer = await speaker('fr').send(path, { payment_method: GOOD }, headers);
      assert.equal(answer.status, status);
      assertIn(answer, 'de');
      assert.ok(answer.text.includes(`href="${path}">Meine Bestellung anzeigen`), answer.text);
    });

    test(`${what} is told in a customer’s words in English, too`, async () => {
      const answer = await speaker('en').send(await newOrder(), { payment_method: GOOD }, headers);
      assert.equal(answer.status, status);
      assertIn(answer, 'en');
      assert.equal(heading(answer), title);
    });
  }

  test('by a link that was changed is in the browser’s language, and leads to the start', async () => {
    const path = await newOrder({ locale: 'de' });
    const broken = await speaker('fr').visit(path.slice(0, -1));
    assert.equal(broken.status, 404);
    assertIn(broken, 'fr');
    assert.match(broken.text, /href="\/">Retour à l’accueil/);
  });
});

describe('the email of a receipt', () => {
  const MAIL = {
    en: ['Your receipt: $29.00', '2 × Enamel mug', '$29.00'],
    de: ['Ihr Beleg: 29,00\u00a0$', '2 × Enamel mug', '29,00\u00a0$'],
    fr: ['Votre reçu\u00a0: 29,00\u00a0$US', '2 × Enamel mug', '29,00\u00a0$US'],
    es: ['Su recibo: 29,00\u00a0US$', '2 × Enamel mug', '29,00\u00a0US$'],
    ja: ['領収書: $29.00', '2 × Enamel mug', '$29.00'],
  };
  for (const locale of LOCALES) {
    test(`is in the language in which the customer paid, with what was bought: ${locale}`, async () => {
      const opened = await open(await newOrder());
      const visitor = speaker(locale);
      const receipt = await pay({ ...opened, visitor });
      const payment = /pay_[\w-]{43}/.exec(receipt.text)[0];
      await jobsOver(site, payment);
      const [email, ...more] = await site.simulator.emails(payment);
      assert.deepEqual(more, []);
      const [subject, item, sum] = MAIL[locale];
      assert.equal(email.subject, subject);
      assert.match(email.html, new RegExp(`<html lang="${locale}">`));
      for (const part of [email.html, email.text])
        for (const word of [item, sum, '1 × A sticker, for nothing']) assert.ok(part.includes(word), part);
      if (locale !== 'en') {
        const words = wordsOf({ text: email.text.replaceAll(/^\d+ × .*$|pay_\S+/gm, '') });
        assert.deepEqual(words.match(ENGLISH) ?? [], [], words);
      }
      // A refund's is in the same language, whoever asks for it; and lists nothing.
      const refund = await merchant.post(`/payments/${payment}/refunds`, {});
      await jobsOver(site, payment);
      const [back] = await site.simulator.emails(refund.json().id);
      assert.ok(!back.html.includes(item), back.html);
      assert.match(back.html, new RegExp(`<html lang="${locale}">`));
    });
  }

  test('is English, and without items, of a payment by the API', async () => {
    const asked = { amount: 2500, currency: 'usd', payment_method: GOOD, receipt_email: 'ada@example.com' };
    const paid = await merchant.pay(asked, freshKey());
    await jobsOver(site, paid.json().id);
    const [email] = await site.simulator.emails(paid.json().id);
    assert.equal(email.subject, 'Your receipt: $25.00');
    assert.ok(!email.text.includes('×'), email.text);
  });

  test('sends nothing of language or items to the provider', async () => {
    const opened = await open(await newOrder());
    const receipt = await pay({ ...opened, visitor: speaker('de') });
    const payment = /pay_[\w-]{43}/.exec(receipt.text)[0];
    const sent = JSON.stringify(await site.simulator.payments(payment));
    assert.ok(!sent.includes('Enamel mug') && !sent.includes('"de"'), sent);
  });
});

describe('the language changes nothing else', () => {
  test('the same form from a browser with another language is the same payment', async () => {
    const opened = await open(await newOrder());
    const sent = { ...opened.form, payment_method: GOOD };
    const first = await speaker('de').send(opened.path, sent);
    const second = await speaker('ja').send(opened.path, sent);
    assert.equal(second.header('idempotent-replayed'), 'true');
    assert.equal(second.header('location'), first.header('location'));
    for (const locale of LOCALES) {
      const receipt = await speaker(locale).visit(opened.path);
      assert.equal(heading(receipt), RECEIPT[locale], 'the page of a used key is in the reader’s language');
    }
    const [payment] = /pay_[\w-]{43}/.exec((await speaker('fr').visit(opened.path)).text);
    assert.equal((await site.simulator.payments(payment)).length, 1);
  });

  test('a problem is English for a program, and so are the pages that are no customer’s', async () => {
    const path = expired(await newOrder(), SIGNING_KEY);
    const headers = { accept: 'application/json', 'accept-language': 'de' };
    const problem = await browser(site).visit(path, { headers });
    assert.equal(JSON.parse(problem.text).title, 'This link has expired');
    assert.equal(problem.header('content-language'), null);
    const docs = await speaker('de').visit('/problems/not-found');
    assert.match(docs.text, /<html lang="en">/);
  });
});

describe('amounts and times', () => {
  const decimals = {
    jpy: 0,
    krw: 0,
    clp: 0,
    xof: 0,
    xaf: 0,
    xpf: 0,
    vnd: 0,
    kwd: 3,
    bhd: 3,
    jod: 3,
    omr: 3,
    tnd: 3,
  };
  for (const code of ['bif', 'djf', 'gnf', 'kmf', 'mga', 'pyg', 'rwf', 'vuv']) decimals[code] = 0;
  const minors = [50, 990, 1000, 99_990, 100_000, 123_450, 999_990, 1_000_000, 1_234_560, 12_345_670];

  test('are written as Intl writes them, in every currency', async () => {
    const { source } = /const CURRENCIES: &str = "(?<source>[^"]*)"/.exec(
      await import('node:fs').then(({ readFileSync }) =>
        readFileSync(new URL('../../crates/payments/src/payment/money.rs', import.meta.url), 'utf8'),
      ),
    ).groups;
    const codes = source
      .replaceAll('\\', ' ')
      .trim()
      .split(/\s+/)
      .filter((code) => code !== 'ugx');
    assert.ok(codes.length > 120);
    for (const currency of codes) {
      // Whole krónur: they have no fractions.
      const unit = currency === 'isk' ? 100 : 10;
      const lines = minors.map((minor) => ({
        name: String(minor),
        unit_amount: Math.ceil(minor / unit) * unit,
        quantity: 1,
      }));
      const path = await newOrder({ currency, lines });
      const digits = decimals[currency] ?? 2;
      for (const locale of LOCALES) {
        const format = new Intl.NumberFormat(locale, {
          style: 'currency',
          currency,
          minimumFractionDigits: digits,
          maximumFractionDigits: digits,
        });
        const { text } = await speaker(locale).visit(path);
        const shown = [...text.matchAll(/<td role="cell" class="price">([^<]*)</g)].map(([, price]) => price);
        const expected = lines.map(({ unit_amount }) => format.format(unit_amount / 10 ** digits));
        assert.deepEqual(shown, expected, `${currency} in ${locale}`);
      }
    }
  });

  test('a receipt’s time is the one that Intl writes, in UTC', async () => {
    const opened = await open(await newOrder());
    await pay(opened);
    for (const locale of LOCALES) {
      const { text } = await speaker(locale).visit(opened.path);
      const [, at, shown] = /<time datetime="([^"]*)">([^<]*)</.exec(text);
      const tag = locale === 'en' ? 'en-GB' : locale;
      const written = (options) =>
        new Intl.DateTimeFormat(tag, { ...options, timeZone: 'UTC' }).format(new Date(at));
      assert.ok(shown.startsWith(written({ dateStyle: 'long' })), `${locale}: ${shown}`);
      assert.ok(shown.endsWith(`${written({ timeStyle: 'short' })} UTC`), `${locale}: ${shown}`);
    }
  });
});
