import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventsRoundRobin } from './read-ahead.ts';

const row = (webhookId: number, eventId: number) => ({
  id: eventId * 100 + webhookId,
  storeId: 1,
  webhookId,
  epoch: 0,
  eventId,
  attempts: 0,
  faults: 0,
  dueAt: new Date(0),
});

test('bodies are read round-robin over the webhooks', () => {
  const rows = [row(1, 10), row(1, 11), row(1, 12), row(2, 20), row(2, 21), row(3, 30)];
  assert.deepEqual(eventsRoundRobin(rows), [10, 20, 30, 11, 21, 12]);
});
