// What the gate's doctor reads in a form is what a browser sends of it, when somebody presses its first button.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import { bodyOf, formsOf } from '../../scripts/lib/html-forms.mjs';
import { browsers } from './support/browsers.mjs';

const people = browsers();
let html;
let sent;
let server;
let address;

before(async () => {
  server = createServer(async (request, response) => {
    if (request.method === 'POST') {
      const chunks = await request.toArray();
      sent?.({ url: request.url, type: request.headers['content-type'], body: Buffer.concat(chunks) });
    }
    response.setHeader('content-type', 'text/html; charset=utf-8');
    response.end(request.method === 'POST' ? '<h1>Thank you</h1>' : `<!doctype html>${html}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  address = `http://127.0.0.1:${server.address().port}/shop/cart?step=2`;
});
after(async () => {
  await people.close();
  server.close();
});

/** Names and values in their order; of a file what is told of it. */
async function entriesOf(body, type) {
  const data = await new Response(body, type && { headers: { 'content-type': type } }).formData();
  return [...data].map(([name, value]) => [
    name,
    typeof value === 'string' ? value : { file: value.name, type: value.type, size: value.size },
  ]);
}

for (const [what, form] of [
  [
    'fields',
    '<form method=post action=/a><input name=a value="1 &amp; 2"><input type=hidden name=b><button>x',
  ],
  ['a form without an address', '<form method=POST><input name=a value=1><button>x</button></form>'],
  ['an address of a base', '<base href="/other/"><form method=post action=pay><button>x</button></form>'],
  [
    'boxes and choices',
    `<form method=post><input type=checkbox name=a checked><input type=checkbox name=b value=1><input type=checkbox name=a value=2 checked>
      <input type=radio name=c value=1><input type=radio name=c value=2 checked><input type=submit value=Go></form>`,
  ],
  [
    'lists',
    `<form method=post><select name=a><option disabled>none<option> one <b>and</b>  more<option value=2>two</select>
      <select name=b multiple><option selected>1<option>2<optgroup disabled><option selected>3</optgroup><option selected value="">4</select>
      <select name=c size=3><option>1</select><select name=d><option selected>1<option selected>2</select><select name=e></select><button>x</button></form>`,
  ],
  [
    'texts of many lines',
    '<form method=post><textarea name=a>\n\none\ntwo</textarea><textarea name=b></textarea><button>x',
  ],
  [
    'what is switched off',
    `<form method=post><input name=a value=1 disabled><fieldset disabled><legend><input name=b value=2></legend><input name=c value=3>
      <legend><input name=d value=4></legend></fieldset><input value=6><button>x</button></form>`,
  ],
  [
    'buttons',
    `<form method=post action=/a><button type=button name=a value=1>no</button><button type=reset name=b>no</button>
      <button name=c value=3 disabled>no</button><button name=d value=4>yes</button><input type=submit name=e value=5></form>`,
  ],
  [
    'a button that says where',
    '<form method=get action=/a><input name=a value=1><button formmethod=post formaction="../b?c=1" formenctype="multipart/form-data">x',
  ],
  [
    'files',
    '<form method=post enctype="multipart/form-data"><input type=file name=a><input name=b value=ü><button>x',
  ],
  ['files without their encoding', '<form method=post><input type=file name=a><button>x</button></form>'],
  [
    'an encoding that is none',
    '<form method=post enctype=json><input name=a value="ü €+&="><button>x</button></form>',
  ],
  [
    'fields elsewhere',
    '<input form=f name=a value=1><form id=f method=post><input name=b value=2><input form=g name=c></form><button form=f>x</button>',
  ],
  [
    'a form in a table',
    `<table><form method=post action=/a><tr><td><input name=a value=1><select name=b><option>2</select><button>x</button></td></tr></form></table>
      <input name=late value=1>`,
  ],
  [
    'a form that is not closed',
    '<div><form method=post><input name=a value=1></div><p><input name=b value=2><button>x',
  ],
  [
    'names with signs of their own',
    '<form method=post enctype="multipart/form-data"><input name=\'a "b"\' value=1><textarea name="c&#10;d">x\ny</textarea><button>x',
  ],
  [
    'what is no form',
    `<!-- <form method=post action=/no><input name=a><button>x</button></form> --><template><form method=post><button>x</button></form></template>
      <script>"<form method=post>"</script><form method=post action=/yes><input name=a value=1><button>x</button></form>`,
  ],
]) {
  test(`it sends of ${what} what a browser sends`, async (t) => {
    html = form;
    const context = await people.visit({ javaScriptEnabled: false });
    t.after(() => context.close());
    const page = await context.newPage();
    await page.goto(address);
    const received = new Promise((resolve) => (sent = resolve));
    await page.locator('button:not([type=button], [type=reset], [disabled]), [type=submit]').first().click();
    const { url, type, body } = await received;

    const [found, ...others] = formsOf(form, address).filter(({ method }) => method === 'POST');
    assert.deepEqual(others, []);
    assert.equal(found.action.href, new URL(url, address).href);
    assert.equal(found.encoding, type.split(';')[0]);
    const ours = bodyOf(found);
    assert.deepEqual(await entriesOf(ours, ours.type), await entriesOf(body, type));
    if (found.encoding === 'application/x-www-form-urlencoded')
      assert.equal(String(bodyOf(found)), String(body));
  });
}

test('fields that are given stand in the place of those of their names', async () => {
  const [form] = formsOf(
    '<form method=post><input name=a value=1><input name=b value=2><input name=a value=3>',
    address,
  );
  assert.equal(String(bodyOf(form, { c: '4', a: '5' })), 'a=5&b=2&c=4');
});
