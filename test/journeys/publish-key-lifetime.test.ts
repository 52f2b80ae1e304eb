/** The lifetime of the idempotency key of a publish. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { startTestApp } from '../setup/app.ts';

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

const app = await startTestApp({ roles: ['serve'] });
const { clock, sql, baseUrl, storeId } = app;
const platform = await createClient(sql, { name: 'Publisher', redirectUris: [], trusted: true, now: clock.now() });

/** With a new token each time, because none is valid for a day. */
async function publish(id: number, key: string): Promise<{ status: number; id: unknown }> {
  const body = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform });
  const granted = (await (await fetch(`${baseUrl}/token`, { method: 'POST', body })).json()) as {
    access_token: string;
  };
  const response = await app.api('POST', `/stores/${storeId}/events`, {
    token: granted.access_token,
    body: { event: 'transaction/created', resource: { id } },
    headers: { 'Idempotency-Key': key },
  });
  return { status: response.status, id: ((await response.json()) as { id?: unknown }).id };
}

test('an idempotency key is kept for 24 hours, and then it can be used again', async () => {
  const first = await publish(1, 'order');
  clock.advance(DAY_MS - MINUTE_MS);
  assert.deepEqual(await publish(1, 'order'), first);
  assert.equal((await publish(2, 'order')).status, 422);
  clock.advance(MINUTE_MS);
  const later = await publish(2, 'order');
  assert.equal(later.status, 201);
  assert.deepEqual(await publish(2, 'order'), later);
  assert.equal((await publish(1, 'order')).status, 422);
});
