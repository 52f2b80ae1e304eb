import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inLockOrder, toBatchRows, type NewestDateOf, type Row } from './rows.ts';

const now = new Date('2026-11-21T12:00:00Z');

const row = (at: number, resourceId: string, modified: string | null = null): Row => ({
  event: {
    type: 'transaction',
    action: 'created',
    resourceId,
    modifiedAt: modified === null ? null : new Date(modified),
    body: String(at),
  },
  storeId: 256,
  shard: 0,
  eventId: at,
  nonce: at,
  at,
  traceContext: null,
});

/** What the rows have in the batch, by property. */
function columnsIn(rows: readonly Row[], newestDateOf?: NewestDateOf) {
  const placed = toBatchRows(rows.toSorted(inLockOrder), now, newestDateOf);
  return {
    body: placed.map((one) => one.row.event.body),
    total: placed.map(({ total }) => total),
    after: placed.map(({ after }) => after),
    isStale: placed.map(({ isStale }) => isStale),
  };
}
const columnsOf = (...rows: Row[]) => columnsIn(rows);

test('a resource appears once among the latest, with the count of its events', () => {
  const { body, total, after } = columnsOf(row(0, 'b'), row(1, 'a'), row(2, 'b'), row(3, 'b'));
  assert.deepEqual(body, ['1', '0', '2', '3']);
  assert.deepEqual(total, [1, 0, 0, 3]);
  assert.deepEqual(after, [0, 2, 1, 0]);
});

test('of the versions of a resource the newest by date_modified becomes the latest, in any order', () => {
  const columns = columnsOf(row(0, 'a', '2026-03-01'), row(1, 'a', '2026-05-01'), row(2, 'a', '2026-04-01'));
  assert.deepEqual(columns.body, ['0', '1', '2']);
  assert.deepEqual(columns.total, [0, 2, 0]);
  assert.deepEqual(columns.isStale, [false, false, true]);
});

test('of two versions with the same date the later one becomes the latest', () => {
  assert.deepEqual(columnsOf(row(0, 'a', '2026-03-01'), row(1, 'a', '2026-03-01')).total, [0, 2]);
});

test('the same id in another store is another resource', () => {
  const other = { ...row(1, 'a'), storeId: 512 };
  assert.deepEqual(columnsOf(row(0, 'a'), other).total, [1, 1]);
});

test('versions older than the stored one are stale; if all are, the last one stands for them', () => {
  const rows = [
    row(0, 'a', '2026-03-01'),
    row(1, 'a', '2026-05-01'),
    row(2, 'b', '2026-03-01'),
    row(3, 'b', '2026-03-02'),
  ];
  const columns = columnsIn(rows, () => new Date('2026-04-01'));
  assert.deepEqual(columns.isStale, [true, false, true, true]);
  assert.deepEqual(columns.total, [0, 1, 0, 1]);
});

test('a version without a date is never older than a stored version dated in the future', () => {
  const ahead = new Date(now.getTime() + 60_000);
  const between = new Date(now.getTime() + 30_000).toISOString();
  const columns = columnsIn([row(0, 'a'), row(1, 'a', between)], () => ahead);
  assert.deepEqual(columns.isStale, [false, true]);
  assert.deepEqual(columns.total, [1, 0]);
});
