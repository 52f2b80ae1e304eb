import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { resourceTypes } from '#catalog/catalog.ts';
import { readShape } from '#catalog/shape.ts';
import type { EventRow } from './event-sql.ts';
import { Representations } from './representation.ts';

const plain = readShape('', null);
const representations = new Representations('svc');

const names = fc.oneof(
  fc.constantFrom('id', '7', '07', '-1', '', '_links', '_embedded', 'a"b', '\u2028', 'toString'),
  fc.string({ unit: 'binary', maxLength: 6 }),
);
const values = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom('_links', 1e21, -0, '\ud800'),
  fc.dictionary(names, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 }),
);
const eventWith = (resource: object, given: Partial<EventRow> = {}): EventRow => ({
  id: 1,
  storeId: 1001,
  type: 'transaction',
  resourceId: '5',
  action: 'created',
  version: 1,
  nonce: 1,
  baseUrl: 'https://api.example.com',
  body: JSON.stringify(resource),
  ...given,
});
const events = fc
  .tuple(
    fc.dictionary(names, values, { maxKeys: 5 }).filter((resource) => !Object.hasOwn(resource, '__proto__')),
    fc.constantFrom(...resourceTypes),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 8 }).filter((id) => id.isWellFormed()),
    fc.constantFrom('https://api.example.com', 'http://[::1]:8080'),
    fc.nat(),
  )
  .map(([resource, type, resourceId, baseUrl, storeId]) => eventWith(resource, { type, resourceId, baseUrl, storeId }));

test('a text that is spliced is what would be rendered of it, byte for byte', () => {
  fc.assert(
    fc.property(events, (event) => {
      const spliced = representations.spliced(event);
      if (spliced !== undefined) assert.deepEqual(spliced, representations.rendered(event, plain, 'json'));
    }),
    { numRuns: 1_000 },
  );
});

test('what a publisher mostly says is spliced', () => {
  assert.ok(representations.spliced(eventWith({ id: 5, total: 9.5, customer: { first_name: 'Ada' } })));
});

for (const resource of [{ id: 5, _embedded: {} }, { id: 5, _links: {} }, { 7: 'first', id: 5 }, {}]) {
  test(`a text that has to be read is not spliced: ${JSON.stringify(resource)}`, () => {
    assert.equal(representations.spliced(eventWith(resource)), undefined);
  });
}
