/**
 * The specification, row by row. Three of its sentences are tested elsewhere: the signature and the encryption of
 * deliveries (src/delivery), the payload that mirrors the API (test/journeys/engine.test.ts), and the disabling after too many
 * failures, which the delivery engine does not do yet.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startWorld } from './row.ts';
import { endpoints } from './rows/endpoints.ts';
import { events } from './rows/events.ts';
import { oauth } from './rows/oauth.ts';
import { webhookFields } from './rows/webhook-fields.ts';
import { webhookLinks } from './rows/webhook-links.ts';

/** The OAuth rows move the clock, so they come last. */
const rows = [...webhookFields, ...webhookLinks, ...endpoints, ...events, ...oauth];

const world = await startWorld();

for (const { row, holds } of rows) test(row, () => holds(world));

test('each row is listed once', () => {
  const names = rows.map(({ row }) => row);
  assert.equal(new Set(names).size, names.length);
});
