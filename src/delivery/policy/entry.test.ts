import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesOf, ended, type Entry } from './entry.ts';

const delivery = {
  id: 1,
  storeId: 1,
  webhookId: 1,
  epoch: 0,
  eventId: 1,
  attempts: 0,
  faults: 0,
  dueAt: new Date(0),
};

test('the size of an entry is at least that of its response, headers and body, in bytes', () => {
  const [headers, body] = ['x-note: \u20ac'.repeat(100), '\u20ac'.repeat(10_000)];
  const attempt = {
    startedAt: new Date(0),
    durationMs: 1,
    outcome: { kind: 'delivered', reply: { code: 200, headers, body } },
  } as const;
  const entry: Entry = { ...ended({ shard: 1, fence: 1 }, delivery), attempt };
  assert.ok(bytesOf(entry) >= Buffer.byteLength(headers) + Buffer.byteLength(body));
});
