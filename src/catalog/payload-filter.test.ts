import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseDate } from '#hypermedia/date.ts';
import { readListing } from '#hypermedia/list-query.ts';
import { ExactNumber, parseExact } from '#core/exact-number.ts';
import { RANGES } from '#core/listing.ts';
import { amountOf } from '../../test/setup/amount.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { SEED } from '../../test/setup/seed.ts';
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
  compileFilter(filter)(payloadOfEvent({ type: 'transaction', resourceId: id, publishedAt, timeZone: 'UTC', body }));

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
/** Names that `#>` of PostgreSQL would take for elements of an array, and others. */
const NAMES = ['a', 'a', '0', '1', '01', '-1', '-0', '+1', ' 1', '', 'a/b', '~1', 'é"', '9999999999', '_embedded'];
const RELATIONS = ['items', 'svc:items', 'x:y:items', 'itemsx', '0', 'svc:0', 'svc:'];
const { values, embedded } = fc.letrec<Record<'values' | 'members' | 'embedded', string>>((tie) => ({
  values: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'json' },
    scalars,
    fc.array(tie('values'), { maxLength: 3, depthIdentifier: 'json' }).map((all) => `[${all.join(',')}]`),
    fc.array(tie('members'), { maxLength: 4, depthIdentifier: 'json' }).map((all) => `{${all.join(',')}}`),
  ),
  members: fc.oneof(
    fc.tuple(fc.constantFrom(...NAMES), tie('values')).map(([name, value]) => `${JSON.stringify(name)}:${value}`),
    tie('embedded').map((value) => `"_embedded":${value}`),
  ),
  embedded: fc.oneof(
    { depthIdentifier: 'json' },
    tie('values'),
    fc
      .array(fc.tuple(fc.constantFrom(...RELATIONS), tie('values')), { maxLength: 3, depthIdentifier: 'json' })
      .map((all) => `{${all.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`),
  ),
}));
const resources = fc.record({
  p: fc.option(values, { nil: undefined }),
  embedded: fc.option(embedded, { nil: undefined }),
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
const operators = fc.constantFrom('', '', ':not', ...RANGES.map((range) => `:${range}`));

/** Returns conditions on one of the properties: with one value, with several, or on whether there is one. */
const conditionsOn = (properties: fc.Arbitrary<string>, given: fc.Arbitrary<string>) =>
  fc.oneof(
    fc.tuple(properties, operators, given),
    fc.tuple(
      properties,
      fc.constant(':in'),
      fc.array(given, { minLength: 1, maxLength: 4 }).map((all) => all.join(',')),
    ),
    fc.tuple(properties, fc.constant(':isnull'), fc.constantFrom('1', '0', 'true', 'false')),
  );
const conditions = fc.oneof(
  conditionsOn(fc.constant('p'), asked),
  conditionsOn(fc.constant('id'), fc.constantFrom('1', '9', '10', '2*', 'true', '', 'x')),
  conditionsOn(fc.constantFrom('date_created', 'date_modified'), fc.oneof(dates, fc.constant(''))),
);
const filters = fc.uniqueArray(conditions, {
  minLength: 1,
  maxLength: 2,
  selector: ([name, operator]) => name + operator,
});

/** All values below a value with their steps and texts. */
function* membersOf(
  value: unknown,
  steps: readonly string[] = [],
): Generator<{ steps: readonly string[]; text: string }> {
  yield { steps, text: typeof value === 'string' ? value : JSON.stringify(value) };
  if (typeof value === 'object' && value !== null && !(value instanceof ExactNumber))
    for (const [name, member] of Object.entries(value)) yield* membersOf(member, [...steps, name]);
}

/** A filter by a member of one resource, with the text of another; `twist` is written before one of its steps. */
const aimed = fc.record({
  member: fc.nat(),
  other: fc.nat(),
  operator: fc.oneof(operators, fc.constantFrom(':in', ':isnull')),
  step: fc.nat(4),
  twist: fc.constantFrom('', '', '', 'svc:', '0', '-', '+'),
});

/** Returns the filter of a webhook with these conditions. */
const filterOf = (all: readonly (readonly string[])[]): string =>
  all
    .map(
      ([name = '', operator = '', value = '']) => `${encodeURIComponent(name)}${operator}=${encodeURIComponent(value)}`,
    )
    .join('&');

const ROUNDS = amountOf('payload-filter', { all: 60, part: 15 });

test('a filter of a webhook passes the resources that a list with this filter has', async () => {
  const BASE_MS = Date.parse('2026-11-20T16:05:03.5Z');
  let [compared, pointed] = [0, 0];
  await fc.assert(
    fc.asyncProperty(
      fc.array(resources, { minLength: 10, maxLength: 30 }),
      fc.array(filters, { minLength: 4, maxLength: 8 }),
      fc.array(aimed, { minLength: 8, maxLength: 16 }),
      async (made, fixed, aims) => {
        const rows = made.map(({ p, embedded: related, created, modified, publishedMs }, at): Stored => {
          const members = [`"id":${at + 1}`];
          if (p !== undefined) members.push(`"p":${p}`);
          if (related !== undefined) members.push(`"_embedded":${related}`);
          if (created !== null) members.push(`"date_created":${JSON.stringify(created)}`);
          if (modified !== null) members.push(`"date_modified":${JSON.stringify(modified)}`);
          const publishedAt = new Date(BASE_MS + publishedMs * 400);
          const modifiedAt = (modified === null ? undefined : parseDate(modified)) ?? publishedAt;
          // As a publish stores it.
          const body = JSON.stringify(parseExact(`{${members.join(',')}}`));
          return { id: String(at + 1), publishedAt, modifiedAt, body };
        });
        await store(rows);
        const members = rows.flatMap(({ body }) => [...membersOf(parseExact(body))].slice(1));
        const atMembers = aims.map(({ member, other, operator, step: twisted, twist }) => {
          const [steps, text] = [
            members[member % members.length]?.steps ?? [],
            members[other % members.length]?.text ?? '',
          ];
          const escaped = steps.map(
            (step, at) => `${at === twisted ? twist : ''}${step.replaceAll('~', '~0').replaceAll('/', '~1')}`,
          );
          return [`/${escaped.join('/')}`, operator, operator === ':isnull' ? '0' : text];
        });
        const all = [...fixed, ...atMembers.map((condition) => [condition])].map(filterOf);
        for (const filter of all.filter((one) => payloadFilterFaults(one).length === 0)) {
          const expected = rows
            .filter(({ id, ...row }) => passes(filter, row.body, { id, ...row }))
            .map(({ id }) => id);
          assert.deepEqual(expected.toSorted(), await found(filter), filter);
          compared += rows.length;
          if (filter.startsWith('%2F') && expected.length > 0 && expected.length < rows.length) pointed += 1;
        }
      },
    ),
    { numRuns: ROUNDS, seed: SEED },
  );
  // A fifth of the usual number, and less.
  assert.ok(compared > 16 * ROUNDS && pointed > 0.8 * ROUNDS);
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

test('a filter is the query of a list unless it has a name that the list does not have', () => {
  assert.equal(listQueryOf('p:not=a b&id=1', 'transaction'), 'p%3Anot=a+b&id=1');
  assert.equal(listQueryOf('p:in=1&/p/a=1', 'transaction'), 'p%3Ain=1&%2Fp%2Fa=1');
  assert.equal(listQueryOf('action=deleted&/after/name=x', 'changelog'), 'action=deleted&%2Fafter%2Fname=x');
  for (const filter of ['p=1', '/p/name=x', '/action/name=x', '/after=x'])
    assert.equal(listQueryOf(filter, 'changelog'), undefined, filter);
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
    for (let n = 0; n < 800; n += 1) assert.equal(filter(payload), false);
    // 16,384 characters × 2 ns × 800 are 26 ms. A cost of text × pattern takes 1.8 s.
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
