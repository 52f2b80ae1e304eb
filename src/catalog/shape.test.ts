import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderHal } from '#hypermedia/hal.ts';
import { readListing } from '#hypermedia/list-query.ts';
import { Problem } from '#core/problem.ts';
import { builtInTypes, relationsOf, type ResourceType } from './catalog.ts';
import { resourceDocument, type Frozen, shapeFaults, shapeOf, storedShape } from './resource-document.ts';

function messagesOf(query: string): string[] {
  const faults = shapeFaults(query, 'transaction');
  assert.ok(faults.every(({ field }) => field === 'query'));
  return faults.map(({ message }) => message);
}

const codesOf = (query: string, type: ResourceType | null): string[] =>
  shapeFaults(query, type).map(({ code }) => code);

function codeOf(ask: () => unknown): string | undefined {
  try {
    return void ask();
  } catch (error) {
    return error instanceof Problem ? error.faults.map(({ code }) => code).join(' ') : String(error);
  }
}

test('zoom is a tree of relations, fields a set of names', () => {
  const { zoom, fields } = storedShape('zoom=items,items:item_options,customer&fields=id,total', 'transaction');
  assert.deepEqual(zoom, { items: { item_options: {} }, customer: {} });
  assert.deepEqual([...(fields ?? [])], ['id', 'total']);
});

for (const type of builtInTypes)
  test(`links selects among the links of a ${type}, each by its name`, () => {
    const embedded = Object.fromEntries(Object.keys(relationsOf(type)).map((rel) => [rel, {}]));
    const body = JSON.stringify({ id: 2, _embedded: embedded });
    const frozen: Frozen = { storeId: 1, type, id: '2', baseUrl: 'https://api.example.com', body };
    const linksWith = (query: string) => resourceDocument(frozen, storedShape(query, type)).links.map(({ rel }) => rel);
    const all = linksWith('');
    for (const rel of all) assert.deepEqual(linksWith(`links=${rel}`), [rel]);
    assert.deepEqual(linksWith(`links=${all.join(',')}`), all);
    assert.deepEqual(codesOf('links=colour', type), ['invalid_parameter']);
  });

test('an unknown link is named, together with the possible ones', () => {
  assert.match(
    messagesOf('links=self,colour')[0] ?? '',
    /no link "colour" here; possible: self, store, send_webhooks, /,
  );
  assert.equal(messagesOf('links=').length, 1);
});

test('an unknown relation is named, together with the possible ones', () => {
  assert.match(messagesOf('zoom=items:colour')[0] ?? '', /"colour".*"items:colour".*item_options, item_category/);
  assert.equal(messagesOf('zoom=foo,bar').length, 2);
});

/** What each relation embeds; relations that are not listed embed no resource. */
const EMBEDDED: Readonly<Record<string, ResourceType>> = {
  customer: 'customer',
  subscription: 'subscription',
  transaction: 'transaction',
  transactions: 'transaction',
  last_transaction: 'transaction',
  original_transaction: 'transaction',
  transaction_logs: 'transaction_log',
};

for (const type of builtInTypes)
  for (const rel of Object.keys(relationsOf(type)))
    test(`zoom accepts below ${rel} of a ${type} the relations of what it embeds`, () => {
      const embedded = EMBEDDED[rel];
      for (const below of builtInTypes.flatMap((one) => Object.keys(relationsOf(one)))) {
        const known = { ...(embedded && relationsOf(embedded)), ...relationsOf(type)[rel] };
        const codes = codesOf(`zoom=${rel}:${below}`, type);
        assert.deepEqual(codes, Object.hasOwn(known, below) ? [] : ['unknown_relation'], below);
      }
    });

test('zoom follows relations to four levels, also where types embed each other', () => {
  const path = 'subscription:transactions:customer:default_billing_address';
  assert.deepEqual(storedShape(`zoom=${path}`, 'transaction').zoom, {
    subscription: { transactions: { customer: { default_billing_address: {} } } },
  });
  assert.deepEqual(codesOf(`zoom=transaction:${path}`, 'transaction_log'), ['too_many']);
});

test('an unknown modifier, a repeated modifier and an empty field are refused', () => {
  assert.match(messagesOf('zoomm=items')[0] ?? '', /no parameter "zoomm"/);
  assert.match(messagesOf('fields=id,')[0] ?? '', /fields takes/);
});

test('a repeated modifier is one fault, and so is an unknown one', () => {
  assert.deepEqual(messagesOf('zoom=items&zoom=customer&zoom=x'), ['zoom is given more than once']);
  assert.equal(messagesOf('order=a&order=b').length, 1);
});

test('the query of a webhook without events may name a relation of any resource, and no other', () => {
  assert.deepEqual(storedShape('zoom=items:item_options', null).zoom, { items: { item_options: {} } });
  assert.deepEqual(storedShape('zoom=transaction_template', null).zoom, { transaction_template: {} });
  assert.match(shapeFaults('zoom=nope', null)[0]?.message ?? '', /there is no relation "nope"/);
  for (const query of ['zoom=items:item_options', 'zoom=transaction_template', 'fields=id'])
    assert.deepEqual(codesOf(query, null), []);
  assert.deepEqual([...(storedShape('fields=id', null).fields ?? [])], ['id']);
});
for (const query of ['fields=', 'fields=id,', 'fields=id&fields=name', `fields=${'a,'.repeat(100)}a`]) {
  test(`${query.slice(0, 25)} is the same fault for a list and for a resource`, () => {
    const parameters = new URLSearchParams(query);
    const ofList = codeOf(() => readListing(parameters, { properties: {}, isOpen: true, relations: undefined }));
    assert.ok(ofList);
    assert.equal(
      codeOf(() => shapeOf(parameters, {})),
      ofList,
    );
  });
}

const frozen: Frozen = {
  storeId: 256,
  type: 'transaction',
  id: '7',
  baseUrl: 'https://api.example.com',
  body: JSON.stringify({
    id: 7,
    total: 9.5,
    _links: { self: { href: 'https://elsewhere.example' } },
    _embedded: {
      'svc:items': [{ name: 'Brush', _embedded: { 'svc:item_options': [{ name: 'red' }] } }],
      customer: { email: 'a@example.com' },
    },
  }),
};

const shaped = (query: string) =>
  JSON.parse(
    renderHal(resourceDocument(frozen, storedShape(query, 'transaction')), {
      baseUrl: frozen.baseUrl,
      relationPrefix: 'svc',
    }),
  ) as Record<string, Record<string, unknown> | undefined>;

test('a relation that is not requested is only a link', () => {
  const plain = shaped('');
  assert.equal(plain['_embedded'], undefined);
  assert.deepEqual(plain['_links']?.['svc:items'], {
    href: 'https://api.example.com/stores/256/transactions/7/items',
    title: 'Items',
  });
});

test('a relation without content is no link, in a version with and without embedded resources', () => {
  const linksOf = (embedded: object) => {
    const body = JSON.stringify({ id: 7, ...embedded });
    const { links } = resourceDocument({ ...frozen, body }, storedShape('', 'transaction'));
    return links.map(({ rel }) => rel);
  };
  const always = ['self', 'store', 'send_webhooks'];
  assert.deepEqual(linksOf({}), always);
  assert.deepEqual(linksOf({ _embedded: { items: [], customer: null, folder: 'none', discounts: [1] } }), always);
  assert.deepEqual(linksOf({ _embedded: { customer: {}, 'svc:items': [{}] } }), [...always, 'items', 'customer']);
});

test('a requested relation is embedded from what the publisher embedded, and no deeper', () => {
  assert.deepEqual(shaped('zoom=items,customer')['_embedded'], {
    'svc:items': [{ name: 'Brush' }],
    'svc:customer': { email: 'a@example.com' },
  });
  assert.deepEqual(shaped('zoom=items:item_options')['_embedded'], {
    'svc:items': [{ _embedded: { 'svc:item_options': [{ name: 'red' }] }, name: 'Brush' }],
  });
  assert.equal(shaped('zoom=payments')['_embedded'], undefined);
});

test('links are built by the server, whatever the publisher sent', () => {
  assert.deepEqual(shaped('')['_links']?.['self'], {
    href: 'https://api.example.com/stores/256/transactions/7',
    title: 'This transaction',
  });
});

test('fields keeps the named properties of the top resource; links stay', () => {
  const { _links: links, ...properties } = shaped('fields=total');
  assert.deepEqual(properties, { total: 9.5 });
  assert.ok(links?.['svc:items'] !== undefined);
});
