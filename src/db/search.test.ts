import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Listing } from '#core/listing.ts';
import { Problem } from '#core/problem.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { createSearch } from './search.ts';

const { sql } = await testDatabase();

const plain: Listing = { offset: 0, limit: 20, order: [], filters: [] };
const sorted: Listing = { ...plain, order: [{ property: 'total', descending: false }] };

const open = (searchLimitMs = 2_000, searchesWaiting = 0) =>
  createSearch(sql, { searchLimitMs, searchesAtOnce: 2, searchesWaiting });
const read = async () => 'found';

/** A search of that store, which runs until the test ends it. */
async function begin(search: ReturnType<typeof open>, storeId: number) {
  const [started, ending] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const answer = search(storeId, sorted, async () => {
    started.resolve();
    return ending.promise;
  });
  await started.promise;
  return { answer, ...ending };
}

const isTooMany = (error: unknown): boolean =>
  error instanceof Problem &&
  error.status === 429 &&
  error.faults[0]?.code === 'too_many_searches' &&
  error.headers['Retry-After'] === '2';

test('a store has one search at a time, and the next one after it ended', async () => {
  const search = open();
  const first = await begin(search, 1);
  await assert.rejects(search(1, sorted, read), isTooMany);
  first.resolve('first');
  assert.equal(await first.answer, 'first');
  assert.equal(await search(1, sorted, read), 'found');
});

test('a waiting search runs next, and one beyond the queue limit is refused', async () => {
  const search = open(2_000, 1);
  const first = await begin(search, 1);
  const order: string[] = [];
  const second = search(1, sorted, async () => order.push('second'));
  await assert.rejects(search(1, sorted, read), isTooMany);
  assert.equal(await search(2, sorted, read), 'found', 'another store does not wait');
  order.push('first');
  first.resolve('');
  await second;
  assert.deepEqual(order, ['first', 'second']);
});

test('a failed search releases its place, too', async () => {
  const search = open();
  const first = await begin(search, 1);
  first.reject(new Error('broken'));
  await assert.rejects(first.answer, /broken/);
  assert.equal(await search(1, sorted, read), 'found');
});

test('all stores together have as many searches as connections can be spared', async () => {
  const search = open();
  const running = [await begin(search, 1), await begin(search, 2)];
  await assert.rejects(search(3, sorted, read), isTooMany);
  for (const { resolve, answer } of running) {
    resolve('');
    await answer;
  }
  assert.equal(await search(3, sorted, read), 'found');
});

const pages: readonly (readonly [name: string, page: Listing, isCounted: boolean])[] = [
  ['a plain page', plain, false],
  ['a page with a filter', { ...plain, filters: [{ property: 'id', operator: 'is', value: 1 }] }, true],
  ['a page with an order', sorted, true],
  ['a page far from the beginning', { ...plain, offset: 1_000_000 }, false],
];
for (const [name, page, isCounted] of pages) {
  test(`${name} is ${isCounted ? 'a' : 'no'} search`, async () => {
    const search = open();
    const { resolve, answer } = await begin(search, 1);
    const asked = search(1, page, read);
    await (isCounted ? assert.rejects(asked, isTooMany) : asked);
    resolve('');
    await answer;
  });
}

test('a search that takes too long is refused with advice, and a plain page comes later', async () => {
  const sleep = (page: Listing) => open(50)(1, page, (tx) => tx`select pg_sleep(5)`);
  await assert.rejects(sleep(sorted), { status: 400, message: /\b50 ms\b.*\bid\b.*\bdate\b/ });
  await assert.rejects(sleep(plain), { status: 503, headers: { 'Retry-After': '5' } });
});

test('a search cannot write', async () => {
  await assert.rejects(
    open()(1, plain, (tx) => tx`create table t (n int)`),
    { code: '25006' },
  );
});
