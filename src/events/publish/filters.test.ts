import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileFilter } from '#catalog/payload-filter.ts';
import { evaluateFilters } from './filters.ts';
import type { PublishColumns } from './rows.ts';

test('filters of long patterns leave time to others', async () => {
  const passes = compileFilter(`note:in=${Array.from({ length: 20 }, (_, n) => `*${'ab'.repeat(20)}${n}*`).join(',')}`);
  const body = JSON.stringify({ id: 1, note: 'ab'.repeat(8_192) });
  const events = Array.from({ length: 60 }, (_, n) => n);
  const columns = {
    storeId: events.map(() => 256),
    type: events.map(() => 'transaction'),
    resourceId: events.map(String),
    modifiedAt: events.map(() => new Date(0)),
    body: events.map(() => body),
  } as unknown as PublishColumns;
  let isDone = false;
  let turns = 0;
  const count = (): void => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const { known, passed } = await evaluateFilters(columns, () => [
    { id: '7', type: 'transaction', passes },
    { id: '8', type: 'transaction', passes: () => true },
    { id: '9', type: 'customer', passes: () => true },
  ]);
  isDone = true;
  assert.deepEqual([known.length, known[59], passed[59]], [60, '{7,8}', '{8}']);
  assert.ok(turns > 1, `${turns} turns of the event loop`);
});
