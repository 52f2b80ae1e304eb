/** The file of docs/events-of-your-own.md on a running server: from publish to delivery, GET, documentation, scopes and removal. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import { declareFile, isReserved } from '#catalog/own/events-file.ts';
import { readConfig } from '#config/config.ts';
import { createClient, provideCommandLineClient } from '#identity/oauth/clients/clients.ts';
import { TABLE_CHECKS } from '../../src/cli/doctor/table-checks.ts';
import { readPages } from '../docs/page.ts';
import { startTestApp } from '../setup/app.ts';
import { runCommand, runProcess } from '../setup/command.ts';
import { testDatabase, urlOf } from '../setup/database.ts';
import { assertFinding, findingsOf } from '../setup/findings.ts';
import { personAtTerminal } from '../setup/person-at-terminal.ts';
import { REDIRECT, startAuthorizationServer } from '../security/oauth-server.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { startReceiver } from '../setup/receiver.ts';
import { settingsOf } from '../setup/several-databases.ts';
import { chaptersOf } from '../../src/server/compose-reference.ts';
import { SEED } from '../setup/seed.ts';

type Json = Record<string, unknown>;
type Body = Json & { _links: Record<string, { href: string }>; _embedded: Record<string, Json[]> };

const page = readPages().find(({ path }) => path === 'docs/events-of-your-own.md') ?? assert.fail('no page');
const documented = page.blocks.find(({ language }) => language === 'json')?.text ?? assert.fail('no file on the page');
const { resources } = JSON.parse(documented) as { resources: Record<string, Json> };

/** Has most keywords of JSON Schema; the property test below compares it with another validator. */
const parcel: Json = {
  title: 'A parcel',
  description: 'A parcel.',
  events: { sent: { when: 'It is sent.', since: '1' } },
  schema: {
    type: 'object',
    required: ['id', 'kind'],
    properties: {
      id: { type: ['integer', 'string'] },
      kind: { enum: ['letter', 'parcel', 3, null] },
      weight: { type: 'number', exclusiveMinimum: 0, maximum: 30 },
      pieces: { type: 'integer', minimum: 1 },
      name: { type: 'string', minLength: 2, maxLength: 5, pattern: '^[a-zß]+$' },
      address: { $ref: '#/$defs/address' },
      stops: { type: 'array', minItems: 1, maxItems: 3, uniqueItems: true, items: { $ref: '#/$defs/address' } },
      codes: { type: 'array', prefixItems: [{ const: 'a' }, { type: 'number' }], items: { type: 'string' } },
      marks: { type: 'array', contains: { const: 'x' }, minContains: 1, maxContains: 2 },
      labels: {
        type: 'object',
        propertyNames: { maxLength: 3 },
        additionalProperties: { type: 'boolean' },
        maxProperties: 2,
      },
      customs: { oneOf: [{ type: 'integer' }, { type: 'number', minimum: 5 }, { type: 'null' }] },
    },
    patternProperties: { '^x_': { type: 'string' } },
    dependentRequired: { weight: ['pieces'] },
    ...(JSON.parse(`{
      "if": { "properties": { "kind": { "const": "parcel" } } },
      "then": { "required": ["weight"] },
      "else": { "not": { "required": ["stops"] } }
    }`) as Json),
    anyOf: [{ required: ['name'] }, { required: ['address'] }, { properties: { kind: { const: 3 } } }],
    additionalProperties: false,
    $defs: {
      address: {
        type: 'object',
        properties: { city: { type: 'string' }, via: { $ref: '#/$defs/address' } },
        required: ['city'],
        additionalProperties: false,
      },
    },
  },
  example: { id: 'S-1', kind: 'letter', name: 'abc' },
};

const folder = await mkdtemp(join(tmpdir(), 'halcyon-events-'));
after(() => rm(folder, { recursive: true }));
// The types of a process are those of its file, and files of tests share processes.
after(() => declareFile(undefined));
const file = join(folder, 'events.json');
const write = (declared: Json) => writeFile(file, JSON.stringify({ resources: declared }));
/** Has more required members than faults are reported. */
const QUESTIONS = Array.from({ length: 15 }, (_, index) => `q${index}`);
const questionnaire: Json = {
  title: 'A questionnaire',
  description: 'Answers of a customer.',
  events: { sent: { when: 'It is sent.', since: '1' } },
  schema: { required: QUESTIONS },
  example: { id: 1, ...Object.fromEntries(QUESTIONS.map((name) => [name, 1])) },
};
const ALL = { ...resources, parcel, questionnaire };
await write(ALL);

const app = await startTestApp({ env: { EVENTS_FILE: file } });
const { api, baseUrl, platformToken, sql, storeId } = app;
/** Restarts the server with another file. */
async function restart(declared: Json): Promise<void> {
  await write(declared);
  await app.restart({ EVENTS_FILE: file });
}
const receiver = await startReceiver();
const store = `/stores/${storeId}`;
const invoice = {
  id: 7,
  number: 'INV-7',
  total: 12.5,
  currency_code: 'EUR',
  _embedded: {
    customer: { id: 3, email: 'ada@example.com' },
    invoice_lines: [{ sku: 'A', _embedded: { products: [{ id: 5 }] } }],
  },
};

async function read(path: string, headers: Record<string, string> = {}, token = app.token) {
  const response = await api('GET', path, { token, headers });
  const text = await response.text();
  return { status: response.status, text, body: (text.startsWith('{') ? JSON.parse(text) : {}) as Body };
}

async function publish(body: unknown) {
  const response = await api('POST', `${store}/events`, { token: platformToken, body });
  const answer = (await response.json()) as Body;
  return {
    status: response.status,
    faults: (answer._embedded?.['svc:errors'] ?? []) as { code: string; field: string }[],
  };
}

async function createWebhook(changes: Json): Promise<string> {
  const body = { name: 'Own', format: 'json', encryption_key: 'k', url: receiver.url, ...changes };
  const response = await api('POST', `${store}/webhooks`, { body });
  assert.equal(response.status, 201, await response.clone().text());
  return new URL(response.headers.get('location') ?? '').pathname;
}

/** Returns the deliveries that arrive because of `act`. */
async function delivered(count: number, act: () => Promise<unknown>) {
  const before = receiver.got.length;
  await act();
  await receiver.until(before + count);
  return receiver.got.slice(before).map(({ headers, body }) => ({
    event: headers['service-webhook-event'],
    body: JSON.parse(body.toString()) as Body,
  }));
}

test('an event of an own type is delivered, and read with the same zoom', async () => {
  const webhook = await createWebhook({
    event_resource: 'invoice',
    query: 'zoom=customer,invoice_lines:products',
    filter: 'total:greaterthan=10',
  });
  const [got] = await delivered(1, () =>
    publish([
      { event: 'invoice/created', resource: { ...invoice, id: 6, total: 9 } },
      { event: 'invoice/paid', resource: invoice },
    ]),
  );
  const { body } = await read(`${store}/invoices/7?zoom=customer,invoice_lines:products`);
  assert.equal(got?.event, 'invoice/paid');
  assert.deepEqual(got.body, body);
  assert.deepEqual([body['total'], body._embedded['svc:invoice_lines']?.length], [12.5, 1]);
  const list = await read(`${store}/invoices?total:lessthan=10`);
  assert.deepEqual([list.body['total_items'], list.body._embedded['svc:invoices']?.[0]?.['id']], ['1', 6]);
  assert.equal((await read(`${store}/invoices/7/invoice_lines`)).status, 200);
  assert.equal((await read(store)).body._links['svc:invoices']?.href, `${baseUrl}${store}/invoices`);
  assert.equal((await api('DELETE', webhook)).status, 204);
});

test('an own event and an own relation of a built-in type are delivered', async () => {
  const webhook = await createWebhook({ events: ['transaction/flagged'], query: 'zoom=fraud_checks' });
  const resource = { id: 1, _embedded: { fraud_checks: [{ id: 2, score: 0.9 }] } };
  const [got] = await delivered(1, () => publish({ event: 'transaction/flagged', resource }));
  assert.deepEqual(
    [got?.event, got?.body._embedded['svc:fraud_checks']],
    ['transaction/flagged', [{ id: 2, score: 0.9 }]],
  );
  assert.equal((await api('DELETE', webhook)).status, 204);
});

test('a resource that contradicts its schema is refused with a fault for each member, and nothing is published', async () => {
  const resource = { ...invoice, id: 8, number: 'R-8', total: undefined, paid: true, currency_code: 'EURO' };
  const { status, faults } = await publish([
    { event: 'invoice/created', resource: { ...invoice, id: 9 } },
    { event: 'invoice/created', resource },
  ]);
  assert.equal(status, 400);
  assert.deepEqual(
    new Set(faults.map(({ code, field }) => `${code} ${field}`)),
    new Set([
      'required 1.resource.total',
      'invalid_value 1.resource.number',
      'invalid_value 1.resource.currency_code',
      'unknown_property 1.resource.paid',
    ]),
  );
  assert.deepEqual(
    [(await read(`${store}/invoices/8`)).status, (await read(`${store}/invoices/9`)).status],
    [404, 404],
  );
  const [alone] = (await publish({ event: 'invoice/paid', resource: { ...invoice, total: -1 } })).faults;
  assert.equal(alone?.field, 'resource.total');
});

test('ten of many errors are reported', async () => {
  const { faults } = await publish({ event: 'questionnaire/sent', resource: { id: 1 } });
  assert.deepEqual(faults[0], { ...faults[0], code: 'required', field: 'resource.q0' });
  assert.equal(faults.length, 10);
});

test('a test delivery has the example', async () => {
  const webhook = await createWebhook({ event_resource: 'invoice', query: 'zoom=invoice_lines:products' });
  const [got] = await delivered(1, () => api('POST', `${webhook}/test`, { body: { event: 'invoice/paid' } }));
  const { number, total, date_due: due, is_sample: isSample, _embedded: embedded } = got?.body ?? assert.fail();
  assert.deepEqual([number, total, due, isSample], ['INV-2026001', 58.9, '2026-12-20', true]);
  const [line] = embedded['svc:invoice_lines'] ?? [];
  assert.equal(line?.['sku'], 'CB-1000');
  assert.equal((line?.['_embedded'] as Body['_embedded'] | undefined)?.['svc:products']?.length, 1);
  const text = await createWebhook({ event_resource: 'parcel' });
  const [sent] = await delivered(1, () => api('POST', `${text}/test`));
  assert.deepEqual([sent?.body['kind'], sent?.body['id']], ['letter', '999999999']);
  for (const one of [webhook, text]) assert.equal((await api('DELETE', one)).status, 204);
});

test('the documentation has own types, events and relations like built-in ones', async () => {
  const catalogue = await read('/docs/events');
  const types = catalogue.body._embedded['svc:event_types'] ?? [];
  const about = (event: string) => types.find((one) => one['event'] === event);
  assert.deepEqual([about('invoice/paid')?.['version'], about('transaction/created')?.['version']], [1, null]);
  assert.deepEqual(about('invoice/paid')?.['zoom'], ['customer', 'invoice_lines', 'invoice_lines:products']);
  assert.deepEqual(
    [about('transaction/flagged')?.['since'], about('invoice/paid')?.['published_by']],
    ['2026-12', ['platform']],
  );
  const html = await read('/docs/events', { Accept: 'text/html' });
  for (const text of ['invoice/paid', 'The customer has paid the whole amount.', 'Version 1.', 'transaction/flagged'])
    assert.ok(html.text.includes(text), text);
  for (const rel of ['invoice', 'invoices', 'invoice_lines', 'products', 'fraud_checks', 'parcel'])
    for (const Accept of ['application/hal+json', 'text/html'])
      assert.equal((await read(`/rels/${rel}`, { Accept })).status, 200, rel);
  const openApi = await read('/openapi.json');
  assert.ok(Object.hasOwn(openApi.body['webhooks'] as Json, 'invoice/paid'));
  assert.match(openApi.text, /"invoice:read"/);
  const { schema, examples } = (await read('/docs/events/invoice/paid')).body as unknown as {
    schema: Json;
    examples: { body: Json }[];
  };
  const check = new Ajv2020({ strict: false, validateFormats: false }).compile(schema);
  for (const { body } of examples) assert.ok(check(body), JSON.stringify(check.errors));
  assert.equal(check({ ...examples[0]?.body, number: 7 }), false);
  assert.ok(check({ ...examples[0]?.body, later: 7 }), 'receivers accept further members');
});

test('forms offer own events', async () => {
  const response = await api('GET', `${store}/webhooks`, { headers: { Accept: 'application/vnd.siren+json' } });
  const { actions = [] } = (await response.json()) as {
    actions?: { name: string; fields: { name: string; value?: { value: string }[] }[] }[];
  };
  const fields = actions.find(({ name }) => name === 'create')?.fields ?? [];
  const offered = (name: string) => JSON.stringify(fields.filter((one) => one.name === name));
  assert.match(offered('events'), /"invoice\/paid".*"transaction|"transaction\/flagged".*"invoice\/paid"/);
  assert.match(offered('event_resource'), /"invoice"/);
});

async function limitedToken(scope: string): Promise<string> {
  const [client] = await sql<{ id: string }[]>`select client_id as id from client where name = 'App'`;
  const grant = { clientId: client?.id ?? '', userId: app.userId, storeId, now: app.clock.now() };
  const { access_token: token } = await letAppIn(app, grant);
  await sql`update access_grant set permissions = array[${scope}], scope = 'store_limited' where id = (select max(id) from access_grant)`;
  return token;
}

test('the consent page names the resources of an own type, and the scope is granted', async () => {
  const server = await startAuthorizationServer({ EVENTS_FILE: file });
  const scope = 'customer:read invoice:read';
  const client = {
    name: 'Bills',
    redirectUris: [REDIRECT],
    scopes: scope.split(' '),
    trusted: false,
    now: server.now(),
  };
  const { client_id: clientId, client_secret: secret } = await createClient(server.sql, client);
  const request = server.asking({ client_id: clientId, scope });
  const { text } = await server.browser.open(`/authorize?${new URLSearchParams(request).toString()}`);
  assert.match(text, /See the store&#39;s invoices, with what is embedded in them/);
  const { location } = await server.browser.consent(request, {}, ['invoice:read']);
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  const { body } = await server.redeem(code, { client_id: clientId, client_secret: secret });
  assert.equal(body['scope'], `invoice:read store_id_${server.alpha}`);
});

test('halcyon trigger knows the events of the server', async (t) => {
  await provideCommandLineClient(sql, app.clock.now());
  const person = await personAtTerminal(baseUrl, { email: 'owner@example.com', password: 'a long password' }, t);
  assert.equal((await person.login()).code, 0);
  const webhook = await createWebhook({ event_resource: 'invoice' });
  const sent = await person.run('trigger', 'invoice/paid', '--webhook', webhook.split('/').at(-1) ?? '');
  assert.equal(sent.code, 0, sent.err);
  // As a process, because this one has the file.
  const unknown = await runProcess(['trigger', 'invoice/exploded'], person.env);
  assert.deepEqual([unknown.code, /^ {2}invoice\/paid$/m.test(unknown.err)], [2, true], unknown.err);
  assert.equal((await api('DELETE', webhook)).status, 204);
});

test('the limited scope of an own type reads its resources and no others', async () => {
  const token = await limitedToken('invoice:read');
  const statusOf = async (path: string) => (await read(`${store}/${path}`, {}, token)).status;
  assert.deepEqual(
    await Promise.all(['invoices', 'invoices/7', 'parcels', 'transactions'].map(statusOf)),
    [200, 200, 403, 403],
  );
  const metadata = await read('/.well-known/oauth-authorization-server');
  assert.ok((metadata.body['scopes_supported'] as string[]).includes('invoice:read'));
});

const VALID = 100;
const INVALID = 900;

const junk = fc.constantFrom<unknown>(null, true, 0, -1, 3.5, '', 'abc', 'x', [], {}, ['x'], { city: 'B' });
const mostly = (good: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 60, arbitrary: good }, { weight: 1, arbitrary: junk });
/** Members with the value undefined are not in the JSON. */
const sometimes = (good: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: mostly(good) });
const address = fc.letrec((tie) => ({
  one: fc.record({ city: mostly(fc.constantFrom('Berlin', 'Bern')), via: sometimes(tie('one')) }),
})).one;
const anyParcel = fc.record({
  kind: mostly(fc.constantFrom('letter', 'parcel', 3, null)),
  weight: sometimes(fc.constantFrom(0, 0.5, 30, 30.5)),
  pieces: mostly(fc.constantFrom(1, 2)),
  name: mostly(fc.constantFrom('ab', 'abcde', 'abcdef', 'ß', 'ßß')),
  address: sometimes(address),
  stops: sometimes(fc.array(address, { maxLength: 4 })),
  codes: sometimes(fc.array(fc.constantFrom<unknown>('a', 1, 'b', null), { maxLength: 4 })),
  marks: sometimes(fc.array(fc.constantFrom('x', 'y'), { maxLength: 4 })),
  labels: sometimes(fc.dictionary(fc.constantFrom('a', 'bcd', 'long'), mostly(fc.boolean()))),
  customs: sometimes(fc.constantFrom(1, 5, 5.5, 4.5, null)),
  x_note: sometimes(fc.string({ maxLength: 3 })),
  other: fc.oneof({ weight: 20, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: junk }),
});

test('random resources are accepted exactly if another validator accepts them', async () => {
  const check = new Ajv2020({ strict: false }).compile(parcel['schema'] as Json);
  // A JSON text has no -0, and no members that are undefined.
  const isValid = (resource: object): boolean => check(JSON.parse(JSON.stringify({ ...resource, id: 1 })));
  const found = [
    ...fc.sample(anyParcel.filter(isValid), { numRuns: VALID, seed: SEED }),
    ...fc.sample(
      anyParcel.filter((one) => !isValid(one)),
      { numRuns: INVALID, seed: SEED },
    ),
  ];
  const events = found.map((resource, id) => ({ event: 'parcel/sent', resource: { ...resource, id: id + 1 } }));
  const accepted = events.slice(0, VALID);
  const { status, faults } = await publish(events);
  assert.equal(status, 400);
  const refused = new Set(faults.map(({ field }) => Number(field.split('.', 1)[0])));
  for (const [index, { resource }] of events.entries())
    assert.equal(refused.has(index), index >= VALID, JSON.stringify(resource));
  assert.equal((await publish(accepted)).status, 200);
});

test('every relation of the API, every segment below a store and every schema of OpenAPI is a reserved name', async () => {
  // The relations of this process are those of the file, so the file has only one type with a known name.
  await restart({ parcel });
  const openApi = (await read('/openapi.json')).body as unknown as {
    paths: Json;
    components: { schemas: Json };
  };
  const own = chaptersOf({ baseUrl, authUrl: baseUrl }).filter(({ title }) => title !== 'Commerce');
  const relations = own.flatMap(({ relations: all }) => all.map(({ rel }) => rel));
  const segments = Object.keys(openApi.paths).flatMap((path) => /^\/stores\/\{store_id\}\/(\w+)/.exec(path)?.[1] ?? []);
  const commerce = new Set(
    chaptersOf({ baseUrl, authUrl: baseUrl })
      .filter(({ title }) => title === 'Commerce')
      .flatMap(({ relations: all }) => all.map(({ rel }) => rel)),
  );
  const schemas = Object.keys(openApi.components.schemas).filter((name) => !commerce.has(name));
  const free = [...relations, ...segments, ...schemas].filter(
    (name) => /^[a-z][a-z0-9_]*$/.test(name) && !isReserved(name),
  );
  assert.deepEqual(free, []);
});

test('a type that is no longer declared is a 404, and its webhooks, events and grants stay readable', async () => {
  await restart(ALL);
  const webhook = await createWebhook({ event_resource: 'invoice', query: 'zoom=customer,invoice_lines' });
  const other = await createWebhook({ event_resource: 'transaction', query: 'zoom=fraud_checks,customer' });
  const token = await limitedToken('invoice:read');
  receiver.answer((_got, response) => void response.writeHead(503).end());
  const customer = { id: 3 };
  const first = await delivered(2, () =>
    publish([
      { event: 'invoice/paid', resource: { ...invoice, id: 70 } },
      { event: 'transaction/flagged', resource: { id: 70, _embedded: { fraud_checks: [{ id: 1 }], customer } } },
    ]),
  );
  const embeddedIn = (all: typeof first) =>
    all
      .map(({ event, body }) => [event, Object.keys(body._embedded ?? {})] as const)
      .toSorted(([a], [b]) => String(a).localeCompare(String(b)));
  assert.deepEqual(embeddedIn(first), [
    ['invoice/paid', ['svc:customer', 'svc:invoice_lines']],
    ['transaction/flagged', ['svc:fraud_checks', 'svc:customer']],
  ]);

  await restart({ parcel });
  receiver.answer((_got, response) => void response.writeHead(204).end());
  const retried = await delivered(2, async () => {
    for (const one of [webhook, other]) assert.equal((await api('POST', `${one}/retry_pending`)).status, 202);
  });
  assert.deepEqual(embeddedIn(retried), [
    ['invoice/paid', []],
    ['transaction/flagged', ['svc:customer']],
  ]);
  const path = `${store}/invoices/70`;
  assert.deepEqual(
    await Promise.all(
      [`${store}/invoices`, path, `${path}/customer`, '/rels/invoice', '/docs/events/invoice/paid'].map(
        async (one) => (await read(one)).status,
      ),
    ),
    [404, 404, 404, 404, 404],
  );
  const { faults } = await publish({ event: 'invoice/paid', resource: invoice });
  assert.deepEqual(
    faults.map(({ code }) => code),
    ['unknown_event'],
  );
  const listed = await read(`${store}/events?limit=5`);
  assert.ok((listed.body._embedded['svc:events'] ?? []).some((one) => one['event'] === 'invoice/paid'));
  for (const Accept of ['application/hal+json', 'application/xml', 'application/vnd.siren+json'])
    for (const one of [webhook, `${webhook}/statuses`, `${store}/webhooks`, `${store}/statuses`, `${store}/events`])
      assert.equal((await read(one, { Accept })).status, 200, one);
  const renamed = await api('PATCH', webhook, { body: { name: 'Old' } });
  assert.equal(renamed.status, 200, await renamed.text());
  assert.equal((await api('POST', `${webhook}/test`)).status, 200);
  assert.equal((await read(`/users/${app.userId}/grants`, {}, platformToken)).status, 200);
  assert.equal((await read(store, {}, token)).status, 200);
  const { config, clock } = { config: readConfig({}, folder), clock: app.clock };
  assertFinding(
    await findingsOf(TABLE_CHECKS, { config, clock, sql, direct: sql }, 'events'),
    /^warn .*invoice\/created \(1 webhook\)/,
  );
  await restart(ALL);
  assertFinding(await findingsOf(TABLE_CHECKS, { config, clock, sql, direct: sql }, 'events'), /^ok /);
  assert.equal((await read(path)).status, 200);
});

test('commands know the scopes of own types', async (t) => {
  await write(ALL);
  const { address: database } = await testDatabase(t);
  const env = { ...settingsOf({ url: urlOf(database) }), EVENTS_FILE: file };
  const bills = ['--name', 'Bills', '--redirect-uri', 'https://app.example.com/cb', '--scope', 'invoice:read'];
  declareFile(undefined);
  const created = await runCommand(['client', 'create', ...bills], env);
  assert.equal(created.code, 0, created.err);
});

test('doctor reports a bad file', async () => {
  await writeFile(file, '{"resources": {"webhook": {}}}');
  const { code, out } = await runCommand(['doctor', '--json'], { EVENTS_FILE: file, HALCYON_DATA: folder });
  assert.equal(code, 1);
  assert.match(out, /EVENTS_FILE is .*\/resources\/webhook: choose another name/);
  const missing = await runCommand(['serve'], { EVENTS_FILE: join(folder, 'none.json'), HALCYON_DATA: folder });
  assert.equal(missing.code, 1);
  assert.match(missing.err, /EVENTS_FILE is .*none\.json/);
});
