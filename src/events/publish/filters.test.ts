import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileFilter } from '#catalog/payload-filter.ts';
import { evaluateFilters } from './publish-batch.ts';
import { rowOf, toBatchRows } from './rows.ts';

test('filters of long patterns leave time to others', async () => {
  const passes = compileFilter(`note:in=${Array.from({ length: 20 }, (_, n) => `*${'ab'.repeat(20)}${n}*`).join(',')}`);
  const body = JSON.stringify({ id: 1, note: 'ab'.repeat(8_192) });
  const now = new Date(0);
  const rows = Array.from({ length: 60 }, (_, n) => {
    const event = { type: 'transaction', action: 'created', resourceId: String(n), modifiedAt: null, body } as const;
    return rowOf(event, 256, { id: n, at: n });
  });
  const batch = toBatchRows(rows, now);
  let isDone = false;
  let turns = 0;
  const count = (): void => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const { known, passed } = await evaluateFilters(batch, () => [
    { id: '7', type: 'transaction', passes },
    { id: '8', type: 'transaction', passes: () => true },
    { id: '9', type: 'customer', passes: () => true },
  ]);
  isDone = true;
  assert.deepEqual([known.length, known[59], passed[59]], [60, '{7,8}', '{8}']);
  assert.ok(turns > 1, `${turns} turns of the event loop`);
});
