/** Bodies of requests and preferences about bodies of responses, and a client that uses only XML. The webhook stands for every resource. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { XMLParser } from 'fast-xml-parser';
import { BASE_URL, faultsIn, minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, a } = await startWebhookApi();
const path = `/stores/${a}/webhooks`;
const { body: webhook } = await call('POST', path, { body: minimal });
const item = `/webhooks/${String(webhook['id'])}`;

const malformed: [string, string | Uint8Array, string][] = [
  ['no body', '', '- malformed_body'],
  ['no JSON', '{"name":', '- malformed_body'],
  ['a name given twice', '{"name":"a","format":"json","name":"b"}', 'name malformed_body'],
  ['a header given twice', '{"headers":{"X-A":"1","X-A":"2"}}', 'headers.X-A malformed_body'],
  ['NUL in a text', '{"name":"a\\u0000b","format":"json"}', 'name malformed_body'],
  ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), '- malformed_body'],
  ['an array', '[]', '- invalid_value'],
  ['a text', '"x"', '- invalid_value'],
  ['null', 'null', '- invalid_value'],
];

// HTTP

for (const [title, bytes, fault] of malformed) {
  test(`a body of ${title} is a 400`, async () => {
    const requests: [string, string][] = [
      ['POST', path],
      ['PATCH', item],
      ['PUT', item],
    ];
    for (const [method, at] of requests) {
      const reply = await call(method, at, { body: bytes });
      assert.deepEqual([method, reply.status, ...faultsIn(reply)], [method, 400, fault]);
    }
  });
}

test('a form with repeated events creates a webhook, in each of the three spellings', async () => {
  for (const [first, second] of [
    ['events', 'events'],
    ['events[]', 'events[]'],
    ['events[0]', 'events[1]'],
  ] as const) {
    const form = new URLSearchParams([
      ['name', 'Ähren & Öl'],
      ['format', 'json'],
      ['encryption_key', 'k'],
      [first, 'transaction/created'],
      [second, 'transaction/voided'],
      ['is_active', '0'],
      ['rate_per_second', '7'],
      ['url', ''],
    ]);
    const { status, body } = await call('POST', path, { body: form });
    assert.equal(status, 201, JSON.stringify(body));
    const { name, events, is_active, rate_per_second, url } = body;
    assert.deepEqual([name, is_active, rate_per_second, url], ['Ähren & Öl', '0', 7, null]);
    assert.deepEqual(events, ['transaction/created', 'transaction/voided']);
  }
});

test('a form changes a webhook, and clears a number with an empty text', async () => {
  const form = new URLSearchParams({ rate_per_second: '', events: 'customer/created' });
  const { status, body } = await call('PATCH', item, { body: form });
  assert.deepEqual([status, body['rate_per_second'], body['event_resource']], [200, null, 'customer']);
  const twice = new URLSearchParams([
    ['name', 'a'],
    ['name', 'b'],
  ]);
  assert.deepEqual(faultsIn(await call('PATCH', item, { body: twice })), ['name duplicate_parameter']);
});

const JSON_BODY = '{"name":"A ]]> B","format":"json","encryption_key":"a key of mine"}';
const XML_BODY =
  '<resource><name>A ]]&gt; B</name><format>json</format><encryption_key>a key of mine</encryption_key></resource>';
/** Which methods accept a content type. */
const TYPES: readonly [type: string, body: string, accepting: readonly string[]][] = [
  ['application/json', JSON_BODY, ['POST', 'PATCH', 'PUT']],
  ['application/hal+json', JSON_BODY, ['POST', 'PATCH', 'PUT']],
  ['Application/Merge-Patch+JSON; charset=utf-8', JSON_BODY, ['PATCH']],
  ['application/xml', XML_BODY, ['POST', 'PATCH', 'PUT']],
  ['application/hal+xml', XML_BODY, ['POST', 'PATCH', 'PUT']],
  ['text/xml', XML_BODY, ['POST', 'PATCH', 'PUT']],
  ['text/xml; charset=utf-8', XML_BODY, ['POST', 'PATCH', 'PUT']],
  ['text/xml; charset=iso-8859-1', XML_BODY, []],
  ['text/csv', JSON_BODY, []],
  ['application/json-patch+json', '[]', []],
  ['application/xhtml+xml', XML_BODY, []],
];

test('each content type is accepted by its methods, and by others it is a 415', async () => {
  for (const [type, body, accepting] of TYPES) {
    for (const method of ['POST', 'PATCH', 'PUT']) {
      const reply = await call(method, method === 'POST' ? path : item, {
        body,
        headers: { 'Content-Type': type },
      });
      const { status } = reply;
      if (!accepting.includes(method))
        assert.deepEqual(
          [status, ...faultsIn(reply)],
          [415, 'Content-Type unsupported_media_type'],
          `${method} ${type}`,
        );
      else
        assert.deepEqual([status, reply.body['name']], [method === 'POST' ? 201 : 200, 'A ]]> B'], `${method} ${type}`);
    }
  }
});

test('a webhook is written as XML that is read as the same text, with ]]> in it', async () => {
  await call('PATCH', item, { body: JSON_BODY, headers: { 'Content-Type': 'application/json' } });
  const { text } = await call('GET', item, { headers: { Accept: 'application/xml' } });
  assert.match(text, /<name>A \]\]&gt; B<\/name>/);
  const { status, body } = await call('PUT', item, { body: text, headers: { 'Content-Type': 'text/xml' } });
  assert.deepEqual([status, body['name']], [200, 'A ]]> B']);
});

test('a string body of fetch, sent as text/plain, is read as JSON', async () => {
  const { headers } = new Request(BASE_URL, { method: 'POST', body: '{}' });
  const type = { 'Content-Type': headers.get('content-type') };
  const changed = await call('PATCH', item, { body: '{"name":"By fetch"}', headers: type });
  assert.deepEqual([changed.status, changed.body['name']], [200, 'By fetch']);
  const broken = await call('PATCH', item, { body: 'name=x', headers: type });
  assert.deepEqual([broken.status, ...faultsIn(broken)], [400, '- malformed_body']);
});

const prefer = (value: string) => ({ headers: { Prefer: value } });

for (const value of ['return=minimal', 'respond-async, RETURN="minimal"', 'wait=5; return=minimal'])
  test(`with Prefer: ${value} a change is answered without a body`, async () => {
    const created = await call('POST', path, { body: minimal, ...prefer(value) });
    assert.deepEqual(
      [created.status, created.body, created.headers.get('preference-applied')],
      [201, {}, 'return=minimal'],
    );
    const own = (created.headers.get('location') ?? '').replace(BASE_URL, '');
    assert.equal((await call('GET', own)).status, 200);
    const changed = await call('PATCH', own, { body: { name: 'Renamed' }, ...prefer(value) });
    assert.deepEqual(
      [changed.status, changed.body, changed.headers.get('preference-applied')],
      [204, {}, 'return=minimal'],
    );
    assert.equal((await call('GET', own)).body['name'], 'Renamed');
  });

for (const value of ['return=representation', 'x-return=minimal', 'return=minimalist', ''])
  test(`with Prefer: ${value || '(empty)'} a change is answered with its representation`, async () => {
    const changed = await call('PATCH', item, { body: { name: 'Same' }, ...prefer(value) });
    assert.deepEqual(
      [changed.status, changed.body['name'], changed.headers.get('preference-applied')],
      [200, 'Same', null],
    );
  });

test('Prefer changes no read and no error', async () => {
  for (const method of ['GET', 'OPTIONS'])
    assert.equal((await call(method, item, prefer('return=minimal'))).status, 200, method);
  const refused = await call('PATCH', item, { body: { format: 'x' }, ...prefer('return=minimal') });
  assert.deepEqual([refused.status, ...faultsIn(refused)], [400, 'format invalid_value']);
});

// A client that uses only XML

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
      const one = await made(body);
      const { body: before } = await call('GET', one);
      const { text, headers } = await call('GET', one, { headers: { Accept: type } });
      assert.equal(headers.get('content-type'), `${type}; charset=utf-8`);
      const put = await call('PUT', one, { body: text, headers: { 'Content-Type': type } });
      assert.equal(put.status, 200, put.text);
      const { body: after } = await call('GET', one);
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
  const one = await made(rich);
  const body = '<resource><events>transaction/voided</events><rate_per_second/></resource>';
  const reply = await call('PATCH', one, { body, headers: { 'Content-Type': types[0] } });
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
  const one = await made(rich);
  const body = new URLSearchParams({ headers: 'X-A: 1\r\nX-B: a: b\r\n' });
  const { status, body: changed } = await call('PATCH', one, { body });
  assert.deepEqual([status, changed['headers']], [200, { 'X-A': '1', 'X-B': 'a: b' }]);
});

test('where no body is needed, an empty one is accepted under any type', async () => {
  const one = await made(poor);
  const headers = { 'Content-Type': 'text/x-anything' };
  assert.equal((await call('DELETE', one, { body: '', headers })).status, 204);
});
