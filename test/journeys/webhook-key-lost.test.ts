/** A key of a webhook that cannot be opened any more, because the secret key that it was sealed with is lost. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createSealer } from '#db/seal.ts';
import { minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, sql, a } = await startWebhookApi();

test('a webhook whose key is lost is shown without it, does not break lists, and takes a new one', async () => {
  const path = `/stores/${a}/webhooks`;
  const [lost, sound] = await Promise.all(
    ['lost', 'sound'].map(async (encryption_key) => {
      const { body } = await call('POST', path, { body: { ...minimal, encryption_key } });
      return String(body['id']);
    }),
  );
  const at = `/webhooks/${lost}`;
  const sealed = createSealer(randomBytes(32)).seal('lost', `webhook:${lost}`);
  await sql`update webhook set encryption_key = ${sealed} where id = ${Number(lost)}`;

  const shown = await call('GET', at);
  assert.deepEqual([shown.status, shown.body['encryption_key']], [200, null], shown.text);
  const { status, body } = await call('GET', path);
  const listed = (body._embedded['svc:webhooks'] ?? []).map((one) => [one['id'], one['encryption_key']]);
  assert.deepEqual([status, new Map(listed as [unknown, unknown][]).get(Number(sound))], [200, 'sound']);

  const renamed = await call('PATCH', at, { body: { name: 'Renamed' } });
  assert.deepEqual([renamed.status, renamed.body['encryption_key']], [200, null]);
  const [row] = await sql<{ key: Buffer }[]>`select encryption_key as key from webhook where id = ${Number(lost)}`;
  assert.deepEqual(row?.key, sealed, 'with the former secret key it can be opened again');
  const mended = await call('PATCH', at, { body: { encryption_key: 'new' } });
  assert.deepEqual([mended.status, mended.body['encryption_key']], [200, 'new']);
});
