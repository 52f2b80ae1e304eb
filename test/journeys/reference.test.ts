/** The documentation of the API by itself: every relation in every format, the introduction, and a valid and complete OpenAPI document. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { type Document, isRegistered } from '#hypermedia/document.ts';
import { allEvents } from '#catalog/catalog.ts';
import { formats } from '#hypermedia/render.ts';
import { referenceChapter } from '#reference/reference.ts';
import { readConfig } from '../../src/config/config.ts';
import { chaptersOf, settingOf } from '../../src/server/compose-reference.ts';
import { startTestApp } from '../setup/app.ts';
import { operationTable, routeTable } from '../security/route-table.ts';

const { baseUrl } = await startTestApp({ roles: ['serve'], env: { MCP: '1' } });
const routes = routeTable(baseUrl);
const naming = { baseUrl, relationPrefix: 'svc' };
const chapters = [
  ...chaptersOf({ baseUrl, authUrl: baseUrl }),
  referenceChapter(routes, settingOf(readConfig({ BASE_URL: baseUrl }, '/'), { npm: undefined, python: undefined })),
];
const relations = chapters.flatMap((chapter) => chapter.relations);

/** Sends neither version nor token. */
async function ask(path: string, accept?: string, headers: Record<string, string> = {}) {
  const response = await fetch(baseUrl + path, { headers: { ...(accept && { Accept: accept }), ...headers } });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

type Described = {
  operationId: string;
  tags?: string[];
  responses: Record<string, unknown>;
  requestBody?: unknown;
  parameters?: { $ref?: string }[];
};
type Content = Record<string, { examples?: Record<string, { $ref: string }>; example?: unknown }>;
type Sent = {
  tags: string[];
  parameters: { $ref: string }[];
  requestBody: { content: Record<string, { schema: { $ref: string }; examples: Record<string, { $ref: string }> }> };
};
type OpenApi = {
  tags: { name: string }[];
  webhooks: Record<string, { post: Sent }>;
  paths: Record<string, Record<string, Described>>;
  components: {
    parameters: Record<string, { name: string }>;
    schemas: Record<string, object>;
    examples: Record<string, { value: unknown }>;
  };
};
const described = JSON.parse((await ask('/openapi.json')).text) as OpenApi;

/** Returns every relation that a document uses, and its own. */
const usedBy = ({ name, links, embedded }: Document): string[] => [
  name,
  ...links.map(({ rel }) => rel),
  ...embedded.flatMap(({ rel, documents }) => [rel, ...documents.flatMap(usedBy)]),
];

test('every relation that a representation uses is documented', () => {
  const known = new Set(relations.map(({ rel }) => rel));
  const used = relations.flatMap(({ example }) => (example === undefined ? [] : usedBy(example(naming))));
  assert.deepEqual(
    [...new Set(used)].filter((rel) => !isRegistered(rel) && !known.has(rel)),
    [],
  );
});

test('no relation is documented twice', () => {
  const names = relations.map(({ rel }) => rel);
  assert.deepEqual(names.toSorted(), [...new Set(names)].toSorted());
});

test('every address that a relation names is in the table of routes, and every resource has its relation', () => {
  const named = new Set(relations.flatMap(({ paths = [] }) => paths));
  const paths = routes.filter(({ kind }) => kind === 'resource').map(({ path }) => path);
  assert.deepEqual([...named].toSorted(), [...new Set(paths)].toSorted());
});

for (const format of formats) {
  const [mediaType] = format.mediaTypes;
  test(`each relation answers as ${mediaType}`, async () => {
    for (const { rel, title } of relations) {
      const { status, headers, text } = await ask(`/rels/${rel}`, mediaType);
      assert.equal(status, 200, rel);
      assert.ok(headers.get('content-type')?.startsWith(mediaType), rel);
      assert.ok(text.includes(title.replaceAll("'", format.isPage ? '&#39;' : "'")), `${rel}: ${text.slice(0, 200)}`);
      assert.match(headers.get('etag') ?? '', /^"/, rel);
    }
  });
}

test('an unknown relation is a 404 in the common error format', async () => {
  const { status, text } = await ask('/rels/nothing');
  const body = JSON.parse(text) as { _embedded: Record<string, { code: string }[]> };
  assert.deepEqual([status, body._embedded['svc:errors']?.map(({ code }) => code)], [404, ['not_found']]);
});

test('the description is valid OpenAPI 3.1', async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(structuredClone(described));
  assert.deepEqual([validator.version, valid, errors ?? []], ['3.1', true, []]);
});

test('every reference of the description resolves', () => {
  const references = [...JSON.stringify(described).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path = '']) => path);
  assert.ok(references.length > 100);
  const found = (path: string): unknown =>
    path.split('/').reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], described);
  assert.deepEqual(
    [...new Set(references)].filter((path) => found(path) === undefined),
    [],
  );
});

test('every successful response with a body has a schema that compilers of clients can use', () => {
  const responses = Object.entries(described.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) =>
      Object.entries(operation.responses ?? {}).map(([status, response]) => ({
        at: `${method} ${path}`,
        status,
        response,
      })),
    ),
  );
  const bodies = responses.filter(({ status }) => status.startsWith('2') && status !== '204');
  assert.ok(bodies.length > 50);
  for (const { at, response } of bodies) {
    const { content = {} } = response as { content?: Record<string, { schema?: Record<string, unknown> }> };
    assert.ok(Object.keys(content).length > 0, at);
    for (const [mediaType, { schema = {} }] of Object.entries(content)) {
      const alternatives = (schema['anyOf'] ?? [schema]) as Record<string, unknown>[];
      assert.ok(alternatives.length > 0, `${at} ${mediaType}`);
      // Without a type an alternative permits everything, and the whole becomes unknown to a compiler.
      for (const one of alternatives)
        assert.ok('$ref' in one || typeof one['type'] === 'string', `${at} ${mediaType}: ${JSON.stringify(one)}`);
    }
  }
  for (const [name, schema] of Object.entries(described.components.schemas))
    assert.ok('type' in schema || 'anyOf' in schema, name);
});

test('the values of an enumeration have one type, so that generators of clients can name them', () => {
  let enumerations = 0;
  const check = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    if ('enum' in value && Array.isArray(value.enum)) {
      enumerations += 1;
      const types = new Set(value.enum.filter((one) => one !== null).map((one) => typeof one));
      assert.ok(types.size <= 1, JSON.stringify(value));
    }
    Object.values(value).forEach(check);
  };
  check({ paths: described.paths, schemas: described.components.schemas });
  assert.ok(enumerations > 50);
});

test('a success has a status of its own, not that of a range', () => {
  for (const [path, item] of Object.entries(described.paths))
    for (const [method, { responses = {} }] of Object.entries(item))
      for (const status of Object.keys(responses)) assert.match(status, /^\d{3}$/, `${method} ${path}`);
});

test('every status that an operation declares is described', () => {
  const missing = operationTable(baseUrl).flatMap(({ path, method, operation }) => {
    const responses = described.paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]?.responses;
    // What only people use is not described, and a deletion has no document.
    if (responses === undefined || method === 'DELETE') return [];
    return operation.statuses.flatMap((status) => (status in responses ? [] : [`${method} ${path}: ${status}`]));
  });
  assert.deepEqual(missing, []);
});

// Each schema is compiled for one or two examples, so optimizing its code takes longer than it saves.
const ajv = new Ajv2020({ strict: false, validateFormats: false, code: { optimize: false } });
ajv.addSchema(described, 'api');

test('every example matches its schema', () => {
  let fitting = 0;
  for (const [path, item] of Object.entries(described.paths)) {
    for (const [method, { responses = {} }] of Object.entries(item)) {
      for (const [status, { content = {} }] of Object.entries(responses as Record<string, { content?: Content }>)) {
        for (const [mediaType, { examples = {}, example }] of Object.entries(content)) {
          if (!mediaType.endsWith('json')) continue;
          const at = ['paths', path, method, 'responses', status, 'content', mediaType, 'schema'];
          const pointer = at.map((name) => encodeURIComponent(name.replaceAll('/', '~1'))).join('/');
          const fits = ajv.compile({ $ref: `api#/${pointer}` });
          const shared = Object.values(examples).map(({ $ref }) => $ref.split('/').at(-1) ?? '');
          const values = shared.map((name) => described.components.examples[name]?.value);
          for (const value of example === undefined ? values : [...values, example]) {
            assert.ok(fits(value), `${method} ${path} ${mediaType}: ${ajv.errorsText(fits.errors)}`);
            fitting += 1;
          }
        }
      }
    }
  }
  assert.ok(fitting > 200, String(fitting));
});

const templateOf = (path: string): string => path.replaceAll(/:(\w+)/g, '{$1}');
const METHOD = /^(get|post|patch|put|delete)$/;

test('every resource of programs is described with its methods, and so is every endpoint of the protocol', () => {
  const ofPrograms = new Set(
    operationTable(baseUrl).flatMap(({ path, operation }) => (operation.access === 'person' ? [] : [path])),
  );
  const wanted = routes
    .filter((route) => (route.kind === 'resource' ? ofPrograms.has(route.path) : !route.sameOriginPosts))
    .flatMap(({ path, operations }) => Object.keys(operations).map((method) => `${method} ${templateOf(path)}`));
  const present = Object.entries(described.paths).flatMap(([path, item]) =>
    Object.keys(item)
      .filter((name) => METHOD.test(name))
      .map((method) => `${method.toUpperCase()} ${path}`),
  );
  // /authorize is a page, but programs must know its parameters.
  assert.deepEqual(present.toSorted(), [...wanted, 'GET /authorize', 'POST /authorize'].toSorted());
});

test('the description explains how to publish: the event, the limits, and the idempotency key', async () => {
  const { requestBody, parameters, responses } = described.paths['/stores/{store_id}/events']?.['post'] ?? {};
  assert.ok(requestBody !== undefined && JSON.stringify(parameters).includes('parameters/idempotencyKey'));
  for (const status of ['200', '201', '409', '413', '422', '503']) assert.ok(responses?.[status] !== undefined, status);
  const fits = ajv.compile({ $ref: 'api#/components/schemas/post_stores_store_id_events' });
  const event = { event: 'customer/created', resource: { id: 'a', name: 'Ada' }, idempotency_key: 'k' };
  assert.deepEqual([fits(event), fits([event, event])], [true, true]);
  for (const wrong of [{}, [], { ...event, event: 'changelog/created' }, { ...event, resource: {} }])
    assert.equal(fits(wrong), false, JSON.stringify(wrong));
  const page = (await ask('/rels/events', 'text/html')).text;
  for (const text of ['idempotency_key', '256 KiB', '8 levels', 'up to 1000']) assert.ok(page.includes(text), text);
});

test('every operation has a unique id', () => {
  const names = Object.values(described.paths).flatMap((item) =>
    Object.entries(item).flatMap(([name, { operationId }]) => (METHOD.test(name) ? [operationId] : [])),
  );
  assert.deepEqual(names.toSorted(), [...new Set(names)].toSorted());
});

test('the description is JSON for every client, from any origin, and supports conditional requests', async () => {
  const first = await ask('/openapi.json', 'text/html', { Origin: 'https://app.example.com' });
  assert.match(first.headers.get('content-type') ?? '', /^application\/json(;|$)/);
  assert.equal(first.headers.get('access-control-allow-origin'), '*');
  const again = await ask('/openapi.json', undefined, { 'If-None-Match': first.headers.get('etag') ?? '' });
  assert.deepEqual([again.status, again.text], [304, '']);
});

test('the introduction is a page for people, and links for programs', async () => {
  const page = await ask('/docs', 'text/html');
  assert.equal(page.status, 200);
  assert.match(page.text, /<h1>Getting started<\/h1>/);
  for (const path of ['/stores/{store_id}/{collection}/{id}', '/webhooks/{webhook_id}', '/grants/{grant_id}'])
    assert.ok(page.text.includes(`<code>${path}</code>`), path);
  const links = (JSON.parse((await ask('/docs')).text) as { _links: Record<string, { href: string }> })._links;
  assert.equal(links['svc:openapi']?.href, `${baseUrl}/openapi.json`);
});

test('the names that the operator has set are used everywhere', async () => {
  const env = { RELATION_PREFIX: 'acme', VERSION_HEADER: 'ACME-VERSION', WEBHOOK_HEADER_PREFIX: 'Acme' };
  const other = await startTestApp({ roles: ['serve'], env });
  const read = async (path: string, accept: string) =>
    (await fetch(other.baseUrl + path, { headers: { Accept: accept } })).text();
  const texts = await Promise.all([
    read('/docs', 'text/html'),
    read('/rels', 'text/html'),
    read('/docs/events', 'text/html'),
    read('/docs/receiving', 'text/html'),
    read('/docs/receiving', 'application/hal+json'),
    read('/docs/events/transaction/created', 'application/hal+json'),
    read('/rels/store', 'text/html'),
    read('/rels/store', 'application/hal+json'),
    read('/openapi.json', 'application/json'),
  ]);
  for (const text of texts) {
    assert.match(text, /acme:/);
    assert.doesNotMatch(text, /svc:|SERVICE-API-VERSION|Service-Webhook/);
  }
  const [docs, openApi] = [texts[0] ?? '', texts.at(-1) ?? ''];
  assert.match(docs, /ACME-VERSION: 1[^]*Acme-Webhook-Signature/);
  assert.match(openApi, /"name":"ACME-VERSION","in":"header"/);
});

test('it states which bodies are optional, and its hints for forms are extensions', () => {
  const isRequired = (path: string): unknown =>
    (described.paths[path]?.['post']?.requestBody as { required: boolean } | undefined)?.required;
  assert.equal(isRequired('/webhooks/{webhook_id}/rotate_key'), false);
  assert.equal(isRequired('/stores/{store_id}/{collection}/{id}/send_webhooks'), false);
  assert.equal(isRequired('/webhooks/{webhook_id}/recover'), true);
  assert.equal(isRequired('/stores/{store_id}/events'), true);
  const schema = described.components.schemas['post_stores_store_id_collection_id_send_webhooks'] as {
    properties: Record<string, object>;
  };
  assert.deepEqual(Object.keys(schema.properties['refeed_hooks'] ?? {}).toSorted(), [
    'description',
    'items',
    'maxItems',
    'type',
    'x-other-name',
  ]);
  const properties = described.components.schemas['post_stores_store_id_webhooks'] as { properties: object };
  for (const hint of ['kind', 'choices', 'default', 'isMinor', 'patternProperties'])
    assert.doesNotMatch(JSON.stringify(properties), new RegExp(`"${hint}":`), hint);
});

test('If-Match and 412 are documented for each operation that asks for a version, and for no other', () => {
  const documented = Object.entries(described.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { parameters, responses }]) => {
      const isDocumented = parameters?.some?.(({ $ref }) => $ref === '#/components/parameters/ifMatch') === true;
      assert.equal(Object.hasOwn(responses ?? {}, '412'), isDocumented, `${method} ${path}`);
      return isDocumented ? [`${method} ${path}`] : [];
    }),
  );
  const asking = operationTable(baseUrl).flatMap(({ path, method, operation }) =>
    operation.isConditional ? [`${method.toLowerCase()} ${path.replaceAll(/:(\w+)/g, '{$1}')}`] : [],
  );
  assert.deepEqual(documented.toSorted(), asking.toSorted());
  for (const action of ['rotate_key', 'recoveries/{recovery_id}/cancel'])
    assert.ok(documented.includes(`post /webhooks/{webhook_id}/${action}`), action);
});

test('each event is described with the headers and the body of its request', () => {
  const { webhooks, components } = described;
  assert.deepEqual(Object.keys(webhooks), allEvents());
  for (const [event, { post }] of Object.entries(webhooks)) {
    const headers = new Set(
      post.parameters.map(({ $ref }) => components.parameters[$ref.split('/').at(-1) ?? '']?.name),
    );
    for (const name of ['Service-Webhook-Event', 'webhook-id', 'webhook-signature'])
      assert.ok(headers.has(name), `${event}: ${name}`);
    const { schema, examples } = post.requestBody.content['application/hal+json'] ?? assert.fail(event);
    const [example] = Object.values(examples).map(({ $ref }) => components.examples[$ref.split('/').at(-1) ?? '']);
    const fits = ajv.compile({ $ref: `api${schema.$ref}` });
    assert.ok(fits(example?.value), `${event}: ${ajv.errorsText(fits.errors)}`);
    assert.equal(fits({ _links: {} }), false, event);
  }
});

test('the requests of webhooks share no tag with the operations of the API, of which generators make classes', () => {
  const ofApi = new Set(
    Object.values(described.paths).flatMap((item) => Object.values(item).flatMap(({ tags = [] }) => tags)),
  );
  const ofWebhooks = new Set(Object.values(described.webhooks).flatMap(({ post }) => post.tags));
  assert.deepEqual(ofApi.intersection(ofWebhooks), new Set());
  assert.deepEqual(new Set(described.tags.map(({ name }) => name)), ofApi.union(ofWebhooks));
});
