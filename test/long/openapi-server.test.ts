/** The running server matches /openapi.json: the statuses, bodies and parameters of every operation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFurnishedApp } from '../setup/app-with-resources.ts';
import { responseChecker, type ApiDescription } from '../setup/described-responses.ts';

type Schema = {
  type?: string;
  format?: string;
  pattern?: string;
  minimum?: number;
  xml?: { name: string };
  $ref?: string;
};
type Parameter = { name: string; in: string; schema: Schema };
type Content = Record<string, { schema?: Schema; examples?: Record<string, { $ref: string }> }>;
type Described = {
  parameters?: (Parameter | { $ref: string })[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
};

const app = await startFurnishedApp();
const document = (await (await fetch(`${app.baseUrl}/openapi.json`)).json()) as {
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Schema>; examples: Record<string, { value: string }> };
};
const check = responseChecker(document as unknown as ApiDescription);
const METHODS: ReadonlySet<string> = new Set(['get', 'post', 'patch', 'put', 'delete']);
const operations = Object.entries(document.paths)
  .flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([name]) => METHODS.has(name))
      .map(([method, described]) => ({ method: method.toUpperCase(), path, described })),
  )
  // Operations that erase come last: all others need an existing resource.
  .toSorted((a, b) => Number(a.method === 'DELETE') - Number(b.method === 'DELETE'));

const addressOf = (path: string): string =>
  app.baseUrl + path.replaceAll(/\{(\w+)\}/g, (_, name: string) => app.named[name] ?? assert.fail(name));

type Asked = { token?: string; accept?: string; type?: string; encoding?: string; body?: string; version?: boolean };

async function ask(method: string, address: string, asked: Asked = {}) {
  const { token, accept, type, encoding, body, version = true } = asked;
  const ended = new AbortController();
  const response = await fetch(address, {
    method,
    redirect: 'manual',
    signal: ended.signal,
    headers: {
      ...(version && { 'SERVICE-API-VERSION': '1' }),
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      ...(accept !== undefined && { Accept: accept }),
      ...(type !== undefined && { 'Content-Type': type }),
      ...(encoding !== undefined && { 'Content-Encoding': encoding }),
    },
    ...(body !== undefined && { body }),
  });
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const text = isStream ? '' : await response.text();
  ended.abort();
  return { status: response.status, contentType: response.headers.get('content-type') ?? '', text };
}

/** For everything but events. */
const TOO_LARGE = `token=${'x'.repeat(2 * 1024 * 1024)}`;

function requests(method: string): Asked[] {
  const tokens = [{}, { token: 'hal_at_x' }, { token: app.token }, { token: app.platformToken }];
  const bodies =
    method === 'GET'
      ? [{}]
      : [
          {},
          { type: 'application/json', body: '{}' },
          { type: 'application/json', body: '{"unknown":1' },
          { type: 'application/xml', body: '<resource/>' },
          { type: 'application/x-www-form-urlencoded', body: 'grant_type=x&token=x' },
          { type: 'text/csv', body: 'x' },
          { type: 'application/x-www-form-urlencoded', encoding: 'gzip', body: 'x' },
          { type: 'application/x-www-form-urlencoded', body: TOO_LARGE },
        ];
  return [
    { version: false, token: app.token },
    { accept: 'image/png', token: app.token },
    { accept: 'application/vnd.siren+json', token: app.token },
    ...tokens.flatMap((token) => bodies.map((body) => Object.assign({}, token, body))),
  ];
}

const queryParametersOf = ({ parameters = [] }: Described): Parameter[] =>
  parameters.filter((one): one is Parameter => 'in' in one && one.in === 'query');

function sampleOf({ name, schema: { type, minimum } }: Parameter): string {
  if (type === 'integer') return String(minimum ?? 0);
  if (name === 'zoom') return 'item_options';
  return name === 'order' || name === 'fields' ? 'id' : '1';
}

for (const { method, path, described } of operations.filter((one) => one.method === 'GET')) {
  const parameters = queryParametersOf(described);
  // The page of /authorize ignores unknown parameters (RFC 6749 §3.1), and a document of errors has no query.
  if (parameters.length === 0 || path === '/authorize') continue;
  test(`the query of GET ${path} is as described`, async () => {
    const read = (query: string) => ask(method, `${addressOf(path)}?${query}`, { token: app.platformToken });
    for (const parameter of parameters) {
      const { name, schema } = parameter;
      const response = await read(`${name}=${sampleOf(parameter)}`);
      assert.doesNotMatch(response.text, /"code":"unknown_parameter"/, name);
      assert.deepEqual(check({ method, path: addressOf(path).slice(app.baseUrl.length), ...response }), [], name);
      if (!['order', 'fields', 'zoom', 'offset', 'limit'].includes(name)) continue;
      const isAllowed = schema.type === 'string' && new RegExp(schema.pattern ?? '').test('');
      assert.equal((await read(`${name}=`)).status, isAllowed ? 200 : 400, `an empty ${name}`);
    }
    assert.equal((await read('no:such=1')).status, 400);
  });
}

test('the response to an array of events is as described', async () => {
  const path = addressOf('/stores/{store_id}/events');
  const body = JSON.stringify([{ event: 'customer/created', resource: { id: 'a', name: 'Ada' } }]);
  const response = await ask('POST', path, { token: app.platformToken, type: 'application/json', body });
  assert.equal(response.status, 200, response.text);
  assert.deepEqual(check({ method: 'POST', path: path.slice(app.baseUrl.length), ...response }), []);
});

test('the response to a test of a pull webhook is as described', async () => {
  const webhook = {
    name: 'Pull',
    format: 'json',
    is_held: true,
    event_resource: 'customer',
    encryption_key: 'k'.repeat(32),
  };
  const request = { token: app.token, type: 'application/json' };
  const made = await ask('POST', addressOf('/stores/{store_id}/webhooks'), {
    ...request,
    body: JSON.stringify(webhook),
  });
  assert.equal(made.status, 201, made.text);
  const path = `/webhooks/${(JSON.parse(made.text) as { id: number }).id}/test`;
  const response = await ask('POST', app.baseUrl + path, { ...request, body: '{}' });
  assert.equal(response.status, 202, response.text);
  assert.deepEqual(check({ method: 'POST', path, ...response }), []);
});

for (const { method, path } of operations) {
  test(`each status of ${method} ${path} is described`, async () => {
    const found: string[] = [];
    for (const request of requests(method)) {
      const response = await ask(method, addressOf(path), request);
      const faults = check({ method, path: addressOf(path).slice(app.baseUrl.length), ...response });
      found.push(...faults.map((fault) => `${fault} ${JSON.stringify(request)} ${response.text.slice(0, 200)}`));
    }
    assert.deepEqual(found, []);
  });
}

test('the id of a published resource is an integer or a text', () => {
  for (const name of ['transaction', 'subscription', 'customer']) {
    const { properties } = document.components.schemas[`${name}_selection`] as unknown as {
      properties: Record<string, { anyOf?: object[] }>;
    };
    if (properties['id'] !== undefined)
      assert.deepEqual(properties['id'].anyOf, [{ type: 'integer', format: 'int64' }, { type: 'string' }], name);
  }
});

test('an id of the server is an integer of 64 bits, because generators write 32 bits without a format', () => {
  const { schemas } = document.components as unknown as {
    schemas: Record<string, { properties?: Record<string, Schema> }>;
  };
  for (const name of ['webhook', 'status', 'event']) assert.equal(schemas[name]?.properties?.['id']?.format, 'int64');
  const ofPaths = Object.values(document.paths).flatMap(
    ({ parameters = [] }) => parameters as unknown as readonly Parameter[],
  );
  const ids = ofPaths.filter(({ name }) => name.endsWith('_id') && name !== 'client_id');
  assert.ok(ids.length > 20);
  for (const { name, schema } of ids) assert.equal(schema.format, 'int64', name);
});

test('the id of a published resource in a path is a text, of which generators make no class', () => {
  const { parameters = [] } = document.paths['/stores/{store_id}/{collection}/{id}'] ?? assert.fail();
  const id = (parameters as unknown as readonly Parameter[]).find(({ name }) => name === 'id');
  assert.equal(id?.schema.type, 'string');
});

test('XML is described with its root element', () => {
  const contents = operations.flatMap(({ described: { requestBody, responses } }) =>
    [requestBody ?? {}, Object.values(responses)].flat().map(({ content = {} }: { content?: Content }) => content),
  );
  let read = 0;
  for (const [type, { schema, examples = {} }] of contents.flatMap((content) => Object.entries(content))) {
    if (!type.endsWith('xml')) continue;
    const name = schema?.$ref?.split('/').at(-1);
    const { xml } = (name === undefined ? schema : document.components.schemas[name]) ?? {};
    assert.equal(xml?.name, 'resource', type);
    for (const { $ref } of Object.values(examples)) {
      const text = document.components.examples[$ref.split('/').at(-1) ?? '']?.value ?? '';
      assert.match(text, /^<\?xml[^>]*>\s*<resource[ >/]/);
      read += 1;
    }
  }
  assert.ok(read > 20, String(read));
});
