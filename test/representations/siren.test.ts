/** Siren as specified, read by a third-party parser. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SirenEntity } from 'siren-parser';
import { optionsDocument } from '#http/answers.ts';
import { resource } from '#http/route.ts';
import type { Action, Document, Field, Kind, Value } from '#hypermedia/document.ts';
import { renderSiren } from '#hypermedia/siren.ts';
import { startTestApp } from '../setup/app.ts';
import { attempt, collectionOf, errors, home, naming, transaction, webhook } from '../setup/documents.ts';
import { changeable, emptyList, list } from '../setup/pages.ts';
import { readSiren } from './siren-outline.ts';

const HREF = 'https://api.example.com/things/1';
const rel = (name: string): string => `https://api.example.com/rels/${name}`;

const rendered = (document: Document): SirenEntity => readSiren(renderSiren(document, naming));

const kinds = {
  text: 1,
  number: 1,
  count: 1,
  boolean: 1,
  date: 1,
  url: 1,
  code: 1,
  secret: 1,
  enumeration: 1,
  money: 1,
  json: 1,
  progress: 1,
  trend: 1,
} as const satisfies Readonly<Record<Kind, 1>>;

const VALUES: readonly (Value | undefined)[] = [
  undefined,
  null,
  '',
  'a',
  2.5,
  true,
  false,
  [],
  ['a', 1, null],
  { a: 1 },
];

function fieldOf(kind: Kind, at: number, isMultiple: boolean, choices: readonly string[] | undefined): Field {
  const value = VALUES[at];
  return {
    name: `${kind}-${at}-${String(isMultiple)}-${String(choices)}`,
    kind,
    isRequired: at % 2 === 0,
    isMultiple,
    ...(value !== undefined && { value }),
    ...(choices !== undefined && { choices, isClearable: true as const }),
    ...(kind === 'number' && { minimum: 1, maximum: 9, hint: 'How many' }),
  };
}

/** A field of every kind, with every type of value, single and multiple, with and without choices. */
const fields = (Object.keys(kinds) as Kind[]).flatMap((kind) =>
  [...VALUES.keys()].flatMap((at) =>
    [false, true].flatMap((isMultiple) =>
      [undefined, ['a', 'b']].map((choices) => fieldOf(kind, at, isMultiple, choices)),
    ),
  ),
);

const doing = (action: Partial<Action>): Document => ({
  name: 'thing',
  links: [],
  embedded: [],
  properties: [],
  actions: [{ name: 'change', title: 'Change it', method: 'PATCH', href: HREF, fields: [], ...action }],
});

const documents: Readonly<Record<string, Document>> = {
  home,
  errors,
  'an item': webhook(0),
  'an item that can be changed': changeable(webhook(0)),
  'a page': collectionOf('webhooks', 'Webhooks', [webhook(0), webhook(2), webhook(3)]),
  'a page with an action': list,
  'an empty page': emptyList,
  'a page of resources without an address': collectionOf('logs', 'Attempts', [attempt(0), attempt(1)]),
  'a published resource': transaction,
  'an OPTIONS document': optionsDocument(resource(HREF, {}), HREF, 'GET, HEAD, OPTIONS'),
  'every kind of field': doing({ fields }),
};

for (const [name, document] of Object.entries(documents)) {
  test(`valid Siren: ${name}`, () => {
    const { actions = [], entities = [] } = rendered(document);
    assert.equal(actions.length, document.actions?.length ?? 0);
    assert.equal(entities.length, document.embedded.flatMap(({ documents: some }) => some).length);
  });
}

test('a link relation is an IANA name or the address of its documentation', () => {
  const entity = rendered(webhook(0));
  assert.deepEqual(
    entity.links?.map(({ rel: rels }) => rels),
    [['self'], ...['store', 'webhooks', 'statuses', 'logs'].map((name) => [rel(name)])],
  );
  assert.deepEqual({ ...entity.getLink(rel('store')) }, { ...webhook(0).links[1], rel: [rel('store')] });
});

test('a template is no link', () => {
  const links = [{ rel: 'search', href: 'https://api.example.com/{?q}', templated: true as const }];
  assert.deepEqual(rendered({ ...home, links }).links, []);
});

test('an embedded resource has its properties, its links and its relation, and no actions', () => {
  const page = rendered(list);
  const items = page.getSubEntities(rel('webhooks'));
  assert.equal(items.length, list.embedded[0]?.documents.length);
  assert.equal(items[0]?.getLink('self')?.href, webhook(0).links[0]?.href);
  assert.equal(items[0]?.properties['name'], 'Orders to the warehouse');
  assert.ok(items.every(({ actions }) => actions === undefined));
  const [first] = rendered(transaction).getSubEntities(rel('items'));
  assert.equal(first?.getSubEntities(rel('item_options')).length, 2);
});

test('a page of a collection is marked as such, and a count is a number', () => {
  const page = rendered(list);
  assert.deepEqual(page.class, ['webhooks', 'collection']);
  assert.equal(page.properties['total_items'], 45);
  assert.ok(page.getLink('next'));
  assert.deepEqual(rendered(emptyList).class, ['webhooks', 'collection']);
  assert.deepEqual(rendered(webhook(0)).class, ['webhook']);
});

test('properties are unchanged, including null', () => {
  const { properties } = rendered(webhook(0));
  assert.deepEqual(properties, Object.fromEntries(webhook(0).properties.map(({ name, value }) => [name, value])));
  assert.equal(rendered(webhook(3)).properties['url'], null);
});

test('the title is that of the document, else that of its self link', () => {
  assert.equal(rendered(webhook(0)).title, 'Orders to the warehouse');
  assert.equal(rendered(list).title, 'The webhooks of this store');
});

test('an action without fields has no type, because it has no body', () => {
  const text = renderSiren(doing({ method: 'DELETE', name: 'delete' }), naming);
  const { actions } = JSON.parse(text) as { actions: object[] };
  assert.deepEqual(actions, [{ name: 'delete', title: 'Change it', method: 'DELETE', href: HREF }]);
});

test('a field has its type, its limits, its choices and its current value', () => {
  const change = rendered(changeable(webhook(0))).getAction('change');
  assert.deepEqual([change?.method, change?.type], ['PATCH', 'application/json']);
  const field = (name: string) => ({ ...change?.getField(name) });
  const title = 'Where it is sent; nowhere while it is empty';
  const url = 'https://warehouse-0.example.com/hooks/orders?source=halcyon&region=north';
  assert.deepEqual(field('url'), { name: 'url', class: ['url'], type: 'url', title, value: url });
  const rate = { name: 'rate_per_second', class: ['number'], type: 'number', min: 1, max: 1000, value: 10 };
  assert.deepEqual(field('rate_per_second'), rate);
  assert.equal(field('encryption_key').type, 'password');
  assert.equal(field('headers').value, '{"X-Warehouse":"north","X-Team":"orders & returns"}');
  const yes = { title: 'Yes', value: '1', selected: true };
  assert.deepEqual(field('is_active').value, [yes, { title: 'No', value: '0' }]);
  const profiles = [{ value: 'hour', selected: true }, { value: 'long' }, { title: 'None', value: '' }];
  assert.deepEqual([field('retry_profile').type, field('retry_profile').value], ['radio', profiles]);
  const events = field('events');
  assert.deepEqual([events.type, events.class], ['checkbox', ['enumeration', 'multiple']]);
  const chosen = Array.isArray(events.value) ? events.value.filter(({ selected }) => selected) : [];
  assert.deepEqual(
    chosen.map(({ value }) => value),
    ['transaction/created', 'transaction/modified'],
  );
});

test('over HTTP, from home to a webhook by links and actions alone', async () => {
  const app = await startTestApp({ roles: ['serve'] });
  const ask = async (href: string, { method = 'GET', body }: { method?: string; body?: unknown } = {}) => {
    const headers = {
      Accept: 'application/vnd.siren+json',
      Authorization: `Bearer ${app.token}`,
      'SERVICE-API-VERSION': '1',
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
    };
    const response = await fetch(href, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
    assert.equal(response.headers.get('content-type'), 'application/vnd.siren+json');
    return { status: response.status, entity: readSiren(await response.text()) };
  };
  const relOf = (name: string): string => `${app.baseUrl}/rels/${name}`;
  const follow = async (from: SirenEntity, name: string) => ask(from.getLink(name)?.href ?? '');

  const start = await ask(`${app.baseUrl}/`);
  const store = await follow(start.entity, relOf('store'));
  const empty = await follow(store.entity, relOf('webhooks'));
  assert.equal(empty.entity.properties['total_items'], 0);
  const create = empty.entity.getAction('create');
  assert.ok(create !== undefined);
  assert.deepEqual(create.getField('name')?.class, ['text', 'required']);
  const made = await ask(create.href, {
    method: create.method,
    body: { name: 'Orders', format: 'partner_automation' },
  });
  assert.equal(made.status, 201);
  const page = await follow(store.entity, relOf('webhooks'));
  const found = await follow(page.entity.getSubEntities(relOf('webhooks'))[0] ?? page.entity, 'self');
  assert.deepEqual(
    found.entity.actions?.map(({ name, method }) => [name, method]),
    [
      ['change', 'PATCH'],
      ['replace', 'PUT'],
      ['delete', 'DELETE'],
      ['rotate_key', 'POST'],
      ['test', 'POST'],
      ['retry_pending', 'POST'],
      ['recover', 'POST'],
    ],
  );
  assert.equal(found.entity.getAction('test')?.href, found.entity.getLink(relOf('test'))?.href);
  const change = found.entity.getAction('change');
  assert.ok(change !== undefined);
  assert.equal(change.getField('name')?.value, 'Orders');
  const refused = await ask(change.href, { method: change.method, body: { name: '' } });
  assert.equal(refused.status, 400);
  assert.equal(refused.entity.getSubEntities(relOf('errors'))[0]?.properties['field'], 'name');
});
