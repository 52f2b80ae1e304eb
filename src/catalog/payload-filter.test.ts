import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseDate } from '#hypermedia/date.ts';
import { readListing } from '#hypermedia/list-query.ts';
import { parseExact } from '#core/exact-number.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { listResources } from './catalog-sql.ts';
import {
  compileFilter,
  filterIdOf,
  listQueryOf,
  payloadFilterFaults,
  payloadOf,
  payloadOfEvent,
} from './payload-filter.ts';

const [SHARD, STORE] = [7, 256 + 7];
const PROPERTIES = { id: 'text', date_created: 'date', date_modified: 'date' } as const;
const collection = { shard: SHARD, storeId: STORE, type: 'transaction' } as const;

const { sql } = await testDatabase();
await sql`
  insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
  values (${SHARD}, ${STORE}, 'S', 's.example.com', 's@example.com', 'UTC', now(), now())`;

const passes = (filter: string, body: string, { id = '1', publishedAt = new Date(0) } = {}): boolean =>
  compileFilter(filter)(payloadOfEvent({ resourceId: id, publishedAt, timeZone: 'UTC', body }));

type Stored = { id: string; publishedAt: Date; modifiedAt: Date; body: string };

async function store(rows: readonly Stored[]): Promise<void> {
  await sql`delete from resource`;
  await sql`
    insert into resource (shard, store_id, type, id, version, modified_at, event_id, head_event_id, time_zone, base_url, body)
    select ${SHARD}, ${STORE}, 'transaction', id, 1, modified_at, n, n, 'UTC', '', body
    from unnest(${rows.map(({ id }) => id)}::text[], ${rows.map(({ modifiedAt }) => modifiedAt)}::timestamptz[],
      ${rows.map(({ body }) => body)}::text[]) with ordinality as r (id, modified_at, body, n)`;
}

/** Returns the ids of the stored resources that a list with this query has. */
async function found(query: string): Promise<string[]> {
  const listable = { properties: PROPERTIES, isOpen: true, relations: undefined };
  const { listing } = readListing(new URLSearchParams(query), listable);
  const result = await listResources(sql, collection, { ...listing, limit: 300 });
  if (result === undefined || !('rows' in result)) throw new Error('No page');
  return result.rows.map(({ id }) => id).toSorted();
}

/** JSON texts of values that filters compare in several ways. */
const numbers = fc.oneof(
  fc.constantFrom(
    '0',
    '1',
    '-0',
    '12.5',
    '12.50',
    '1e2',
    '100',
    '9007199254740993',
    '9007199254740992',
    '0.0000001',
    '1e-999',
  ),
  fc.constantFrom('1e999', '0.1', '0.10000000000000000001', '-3', '123456789012345678901234567890'),
  fc.integer({ min: -3, max: 3 }).map(String),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
);
const dates = fc.constantFrom(
  '2026-11-20',
  '2026-11-20T16:05:03+0000',
  '2026-11-20T17:05:03+01:00',
  '2026-11-20 16:05:03.9999999Z',
  '2026-11-20T16:05:03.25',
  '2026-11-20T16:05',
  '2026-02-30',
  '0001-01-01T00:00+1400',
  '9999-12-31T23:59:58-1400',
  '2026-11-20T16:05:60Z',
  '2026-11-20T16:05.5Z',
);
const words = fc.oneof(
  fc.constantFrom(
    '',
    'EUR',
    'eur',
    'true',
    'false',
    'null',
    '01234',
    'ΑΣ',
    'ας',
    'İx',
    'straße',
    'a*b',
    String.raw`a\b`,
    'a%b',
    'a_b',
    '\n',
  ),
  fc.string({ unit: fc.constantFrom('a', 'B', '*', '\\', 'é', '\uffff', '\u{1f680}'), maxLength: 5 }),
);
const texts = fc.oneof(words, dates, numbers);
const scalars = fc.oneof(
  numbers,
  texts.map((text) => JSON.stringify(text)),
  fc.constantFrom('true', 'false', 'null'),
);
const values = fc.oneof(
  scalars,
  fc.array(scalars, { maxLength: 2 }).map((all) => `[${all.join(',')}]`),
  scalars.map((value) => `{"a":${value}}`),
);
const resources = fc.record({
  p: fc.option(values, { nil: undefined }),
  created: fc.option(dates),
  modified: fc.option(dates),
  publishedMs: fc.integer({ min: -2, max: 2 }),
});

/** Texts of filters: values of resources, often with a wildcard. */
const asked = fc.oneof(
  texts,
  words.map((text) => `${text}*`),
  words.map((text) => `*${Array.from(text).slice(1, 3).join('')}*`),
  fc.constantFrom('*', '**', String.raw`\*`, String.raw`a\\*`, '1', '0', '12.5', '100'),
);
const operators = fc.constantFrom('', '', ':not', ':greaterthan', ':lessthan');
const conditions = fc.oneof(
  fc.tuple(fc.constant('p'), operators, asked),
  fc.tuple(fc.constant('id'), operators, fc.constantFrom('1', '9', '10', '2*', 'true', '', 'x')),
  fc.tuple(fc.constantFrom('date_created', 'date_modified'), operators, fc.oneof(dates, fc.constant(''))),
);
const filters = fc
  .uniqueArray(conditions, { minLength: 1, maxLength: 2, selector: ([name, operator]) => name + operator })
  .map((all) => all.map(([name, operator, value]) => `${name}${operator}=${encodeURIComponent(value)}`).join('&'))
  .filter((filter) => payloadFilterFaults(filter).length === 0);

test('a filter of a webhook passes the resources that a list with this filter has', async () => {
  const BASE_MS = Date.parse('2026-11-20T16:05:03.5Z');
  let compared = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(resources, { minLength: 1, maxLength: 30 }),
      fc.array(filters, { minLength: 1, maxLength: 12 }),
      async (made, all) => {
        const rows = made.map(({ p, created, modified, publishedMs }, at): Stored => {
          const members = [`"id":${at + 1}`];
          if (p !== undefined) members.push(`"p":${p}`);
          if (created !== null) members.push(`"date_created":${JSON.stringify(created)}`);
          if (modified !== null) members.push(`"date_modified":${JSON.stringify(modified)}`);
          const publishedAt = new Date(BASE_MS + publishedMs * 400);
          const modifiedAt = (modified === null ? undefined : parseDate(modified)) ?? publishedAt;
          // As a publish stores it.
          const body = JSON.stringify(parseExact(`{${members.join(',')}}`));
          return { id: String(at + 1), publishedAt, modifiedAt, body };
        });
        await store(rows);
        for (const filter of all) {
          const expected = rows
            .filter(({ id, ...row }) => passes(filter, row.body, { id, ...row }))
            .map(({ id }) => id);
          assert.deepEqual(expected.toSorted(), await found(filter), filter);
          compared += rows.length;
        }
      },
    ),
    { numRuns: 100 },
  );
  assert.ok(compared > 1_000);
});

test('numbers are compared by value, also those that a double changes', () => {
  const cases: [filter: string, number: string, isPassed: boolean][] = [
    ['p:greaterthan=0.1', '0.10000000000000000001', true],
    ['p:lessthan=0.1', '0.10000000000000000001', false],
    ['p:greaterthan=0.1', '0.10', false],
    ['p:greaterthan=0', '1e-999', true],
    ['p:lessthan=9007199254740991', '9007199254740990.9999999999', true],
    ['p=12.5', '12.50', true],
    ['p:greaterthan=100', '"100.5"', true],
  ];
  for (const [filter, number, isPassed] of cases) assert.equal(passes(filter, `{"p":${number}}`), isPassed, filter);
});

test('a JSON Pointer leads to members at any depth, and `in` compares with several values', () => {
  const body = '{"id":1,"currency_code":"EUR","a/b":{"~c":7},"_embedded":{"svc:items":[{"code":"x,y"},{"code":"z"}]}}';
  const cases: [filter: string, isPassed: boolean][] = [
    ['/_embedded/svc:items/0/code=x,y', true],
    ['/_embedded/svc:items/1/code=z&currency_code=EUR', true],
    ['/_embedded/svc:items/2/code=z', false],
    ['/_embedded/svc:items/01/code=z', false],
    ['/_embedded/svc:items/2/code=', true],
    ['/_embedded/svc:items/1/code:not=z', false],
    ['/_embedded/svc:items/length=2', false],
    ['/_embedded/items/0/code=x,y', true],
    ['/_embedded/others/0/code=x,y', false],
    ['/a~1b/~0c:greaterthan=6', true],
    ['/constructor=', true],
    ['currency_code:in=USD,EUR', true],
    ['currency_code:in=USD,E*', true],
    ['currency_code:in=USD', false],
    ['missing:in=USD,', true],
    [String.raw`/_embedded/svc:items/0/code:in=a,x\,y`, true],
    ['/_embedded/svc:items/0/code:in=a,x,y', false],
    ['id:in=2,1', true],
  ];
  for (const [filter, isPassed] of cases) assert.equal(passes(filter, body), isPassed, filter);
  const plain = '{"id":1,"_embedded":{"items":[{"code":"z"}]}}';
  for (const name of ['svc:items', 'items']) assert.equal(passes(`/_embedded/${name}/0/code=z`, plain), true, name);
});

test('a filter that cannot be evaluated has a fault per condition', () => {
  const faulty = [
    '&',
    '%zz=1',
    'total_order:above=1',
    'p:greaterthan=',
    'date_created=yesterday',
    '_embedded=x',
    '/a~2=1',
    'p=1&p=2',
    'total_order>100',
    'total_order>=100',
    'total_order!=100',
    'p=1&total_order',
    Array.from({ length: 21 }, (_, n) => `p${n}=1`).join('&'),
  ];
  for (const filter of faulty) {
    const [fault, ...more] = payloadFilterFaults(filter);
    assert.deepEqual([fault?.code, fault?.field, more.length], ['invalid_value', 'filter', 0], filter);
  }
  assert.equal(payloadFilterFaults('p:above=1&date_created=x').length, 2);
});

test('a stored filter with faults, which a later version may find, compares its other conditions', () => {
  for (const filter of ['p:above=1&currency_code=EUR', 'total_order>100&currency_code=EUR'])
    for (const code of ['EUR', 'USD'])
      assert.equal(passes(filter, `{"id":1,"currency_code":"${code}"}`), code === 'EUR', `${filter} ${code}`);
});

test('a filter is the query of a list unless it has a pointer, `in`, or a name that the list does not have', () => {
  assert.equal(listQueryOf('p:not=a b&id=1', 'transaction'), 'p%3Anot=a+b&id=1');
  assert.equal(listQueryOf('p:in=1', 'transaction'), undefined);
  assert.equal(listQueryOf('/p/a=1', 'transaction'), undefined);
  assert.equal(listQueryOf('action=deleted', 'changelog'), 'action=deleted');
  assert.equal(listQueryOf('p=1', 'changelog'), undefined);
});

test('the id of a filter is the first 8 bytes of its SHA-256', () => {
  assert.equal(filterIdOf('currency_code=EUR'), -848689461056817428n);
});

test('a pattern that almost matches everywhere takes time in proportion to the text', () => {
  const patterns = [`*${'a'.repeat(490)}b${'a'.repeat(490)}*`, `${'*a'.repeat(490)}*b`, `*${'a*'.repeat(490)}b*`];
  for (const pattern of patterns) {
    const filter = compileFilter(`p=${pattern}`);
    const payload = payloadOf({
      resourceId: '1',
      modifiedAt: new Date(0),
      body: `{"id":1,"p":"${'a'.repeat(250_000)}"}`,
    });
    const { user } = process.cpuUsage();
    for (let n = 0; n < 200; n += 1) assert.equal(filter(payload), false);
    // 16,384 characters × 2 ns × 200 are 7 ms. A cost of text × pattern takes 2 s.
    assert.ok(process.cpuUsage().user - user < 500_000, pattern);
  }
});

test('a pattern compares the first 16,384 characters of a text', () => {
  const body = (length: number) => `{"id":1,"p":"${'a'.repeat(length)}b"}`;
  assert.equal(passes('p=a*b', body(16_383)), true);
  assert.equal(passes('p=a*b', body(16_384)), false);
  assert.equal(passes('p=a*', body(100_000)), true);
});

test('a filter of three conditions takes a few microseconds per event of 1 KB', (t) => {
  const items = Array.from({ length: 8 }, (_, n) => ({
    code: `item-${n}`,
    name: `A cup of tea ${n}`,
    price: 12.5 + n,
    quantity: n,
  }));
  const resource = {
    id: 70012,
    total_order: 158.9,
    currency_code: 'EUR',
    customer_email: 'ada@example.com',
    _embedded: { 'svc:items': items },
  };
  const body = JSON.stringify({ ...resource, note: 'x'.repeat(300) });
  const event = { resourceId: '70012', modifiedAt: new Date(0), body };
  const filter = compileFilter(
    'total_order:greaterthan=100&customer_email=*@example.com&/_embedded/svc:items/7/code:in=a,item-7',
  );
  const RUNS = 20_000;
  const costOf = (run: () => unknown): number => {
    for (let n = 0; n < RUNS; n += 1) run();
    const { user } = process.cpuUsage();
    for (let n = 0; n < RUNS; n += 1) run();
    return (process.cpuUsage().user - user) / RUNS;
  };
  const payload = payloadOf(event);
  assert.equal(filter(payload), true);
  const [filterUs, parseUs] = [costOf(() => filter(payload)), costOf(() => payloadOf(event))];
  t.diagnostic(`${body.length} bytes: ${filterUs.toFixed(2)} µs per filter, ${parseUs.toFixed(2)} µs to parse`);
  // Ten times what it takes on a busy machine.
  assert.ok(filterUs < 20);
});
