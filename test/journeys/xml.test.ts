/** A client that uses only XML: it reads, changes what it read, and sends it back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { XMLParser } from 'fast-xml-parser';
import { faultsIn, minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, a } = await startWebhookApi();
const path = `/stores/${a}/webhooks`;
const types = ['application/hal+xml', 'application/xml'] as const;

/** Every kind of character and every empty value that a webhook may have. */
const rich = {
  ...minimal,
  name: ' <b>&amp; ]]>\r\n\t\u{1f680} ',
  url: 'https://hooks.example.com/?a=1&b="<2>"',
  query: 'zoom=items,items:item_options&fields=id',
  encryption_key: ' \u0007\ufffesecret\r\n',
  events: ['transaction/created'],
  headers: { 'X-A': '<1>', '1st': 'a & b', constructor: '' },
  rate_per_second: 7,
};
const poor = { name: 'Poor', format: 'partner_automation' };

async function made(body: object): Promise<string> {
  const reply = await call('POST', path, { body });
  assert.equal(reply.status, 201, JSON.stringify(reply.body));
  return `/webhooks/${String(reply.body['id'])}`;
}

for (const [what, body] of Object.entries({ rich, poor })) {
  for (const type of types) {
    test(`a representation read as ${type} can be put back and changes nothing: a webhook with ${what} properties`, async () => {
      const item = await made(body);
      const { body: before } = await call('GET', item);
      const { text, headers } = await call('GET', item, { headers: { Accept: type } });
      assert.equal(headers.get('content-type'), `${type}; charset=utf-8`);
      const put = await call('PUT', item, { body: text, headers: { 'Content-Type': type } });
      assert.equal(put.status, 200, put.text);
      const { body: after } = await call('GET', item);
      assert.deepEqual({ ...after, date_modified: null }, { ...before, date_modified: null });
    });
  }
}

test('a webhook is created in XML, and answered in it', async () => {
  const body = `<resource><name>Orders</name><format>json</format><encryption_key>k</encryption_key>
    <events>transaction/created</events><events>transaction/voided</events><is_active>0</is_active>
    <headers><X-A>1</X-A></headers><rate_per_second>7</rate_per_second><url/></resource>`;
  const reply = await call('POST', path, { body, headers: { 'Content-Type': types[1], Accept: types[1] } });
  assert.equal(reply.status, 201, reply.text);
  const { resource } = new XMLParser({ ignoreAttributes: false, parseTagValue: false }).parse(reply.text) as {
    resource: Record<string, unknown>;
  };
  assert.equal(resource['@_href'], reply.headers.get('location'));
  const { events, is_active, headers, rate_per_second, url } = resource;
  assert.deepEqual(events, ['transaction/created', 'transaction/voided']);
  assert.deepEqual([is_active, headers, rate_per_second, url], ['0', { 'X-A': '1' }, '7', '']);
});

test('a change in XML names the changed members, and one element of an array is an array', async () => {
  const item = await made(rich);
  const body = '<resource><events>transaction/voided</events><rate_per_second/></resource>';
  const reply = await call('PATCH', item, { body, headers: { 'Content-Type': types[0] } });
  assert.deepEqual([reply.status, reply.body['name'], reply.body['events']], [200, rich.name, ['transaction/voided']]);
  assert.equal(reply.body['rate_per_second'], null);
});

test('a collection has its counts as numbers, and embeds its items with their relation and address', async () => {
  const { text } = await call('GET', `${path}?limit=1`, { headers: { Accept: types[0] } });
  assert.match(text, /<total_items>\d+<\/total_items><returned_items>1<\/returned_items><limit>1<\/limit>/);
  assert.match(text, /<resource rel="svc:webhooks" href="http:\/\/api\.example\.test\/webhooks\/\d+">/);
});

test('an error is answered in XML', async () => {
  const headers = { 'Content-Type': types[0], Accept: types[0] };
  const { status, text } = await call('POST', path, { body: '<resource><nmae>x</nmae></resource>', headers });
  assert.equal(status, 400);
  assert.match(text, /<total>3<\/total>/);
  assert.match(text, /<resource rel="svc:errors"><logref>id-[^<]+<\/logref><code>unknown_property<\/code>/);
});

test('malformed XML is a 400, and the 415 names the accepted types', async () => {
  const broken = await call('POST', path, { body: '<resource>', headers: { 'Content-Type': types[0] } });
  assert.deepEqual([broken.status, ...faultsIn(broken)], [400, '- malformed_body']);
  const plain = await call('POST', path, { body: '<resource/>', headers: { 'Content-Type': 'text/plain+xml' } });
  assert.equal(plain.status, 415);
  for (const type of ['application/json', 'application/hal+json', ...types, 'application/x-www-form-urlencoded'])
    assert.ok(plain.text.includes(type), type);
});

test('a form sends an object as lines', async () => {
  const item = await made(rich);
  const body = new URLSearchParams({ headers: 'X-A: 1\r\nX-B: a: b\r\n' });
  const { status, body: changed } = await call('PATCH', item, { body });
  assert.deepEqual([status, changed['headers']], [200, { 'X-A': '1', 'X-B': 'a: b' }]);
});

test('where no body is needed, an empty one is accepted under any type', async () => {
  const item = await made(poor);
  const headers = { 'Content-Type': 'text/x-anything' };
  assert.equal((await call('DELETE', item, { body: '', headers })).status, 204);
});
