/** An operator finds what fails now, and stores and apps by search. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { createBrowser, PASSWORD } from '../security/oauth-server.ts';
import { enrol, makeOperator, openConsole } from '../security/operators.ts';
import { passwords } from '../setup/passwords.ts';
import { inhabit } from '../setup/populated-app.ts';
import { until } from '../setup/until.ts';

const { server, receiver, tokens, call, webhooks, alpha, foreign, sql } = await inhabit();
const email = 'operator@example.com';
const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
await makeOperator(server, id);
const operator = createBrowser(server.origin);
await operator.signIn(email);
const factor = await enrol(server, operator);
const hrefsAt = async (path: string): Promise<string[]> =>
  [...(await openConsole(operator, factor, path)).text.matchAll(/href="(\/operator\/\w+\/[^"]+)"/g)].map(
    ([, href = '']) => href,
  );

test('what fails now begins with the store where most has not arrived, and has no webhook that was disabled long ago', async () => {
  const [, , automation = 0] = webhooks;
  // Failures of an earlier epoch stay in the state of a disabled webhook.
  await sql`update webhook set epoch = 9 where id = ${automation}`;
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at)
    values (${automation % 256}, ${automation}, 1, 1000, ${server.now()})`;
  const before = receiver.got.length;
  for (let n = 0; n < 3; n += 1) {
    const resource = { id: 5_000 + n, total_order: 5, date_created: '2026-07-01T10:00:00+0000' };
    const body = { event: 'transaction/created', resource };
    assert.equal((await call('POST', `/stores/${alpha}/events`, { token: tokens.platform, body })).status, 201);
  }
  await until(
    async () => receiver.got.slice(before).filter(({ path }) => path === '/fails').length,
    (count) => count > 0,
  );
  const { text } = await openConsole(operator, factor);
  const stores = [...text.matchAll(/href="\/operator\/stores\/(\d+)"/g)].map(([, store]) => Number(store));
  assert.deepEqual([stores[0], stores.includes(foreign)], [alpha, true]);
  assert.match(text, /Warehouse/);
  assert.doesNotMatch(text, /Automation/);
});

const SEARCHES: readonly (readonly [path: string, by: string, q: string, found?: string])[] = [
  ['stores', 'name', 'LPH', `/operator/stores/${alpha}`],
  ['stores', 'domain', 'alpha.example', `/operator/stores/${alpha}`],
  ['stores', 'id', String(alpha), `/operator/stores/${alpha}`],
  ['stores', 'name', '*'],
  ['stores', 'id', '1'],
  ['apps', 'name', 'mail', `/operator/apps/${server.client.client_id}`],
  ['apps', 'client_id', server.client.client_id, `/operator/apps/${server.client.client_id}`],
  ['apps', 'client_id', server.client.client_id.slice(1)],
];
for (const [index, [path, by, q, found]] of SEARCHES.entries())
  test(`search ${index} finds ${found === undefined ? 'none' : 'one'} of the ${path} by ${by}`, async () => {
    const hrefs = await hrefsAt(`/operator/${path}?${new URLSearchParams({ by, q }).toString()}`);
    assert.deepEqual(new Set(hrefs), new Set(found === undefined ? [] : [found]));
  });
