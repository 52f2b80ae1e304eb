/** The page of a developer's app: whether its webhooks work in all stores. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startWithPeople } from '../security/api-callers.ts';
import { newApp } from '../security/page-forms.ts';

const people = await startWithPeople();
const { sql, browser } = people;
const { clientId, path } = await newApp(browser, { name: 'Shipping' });
const [app] = await sql<{ id: number }[]>`select id from client where client_id = ${clientId}`;

/** Creates a webhook of the app in a store, with attempts of the last hour by outcome. */
async function createWebhook(
  storeId: number,
  name: string,
  attempts: Readonly<Record<string, number>>,
): Promise<number> {
  const made = await people.call('POST', `/stores/${storeId}/webhooks`, {
    token: people.account,
    body: { name, format: 'json', encryption_key: 'a key of mine' },
  });
  const id = Number(made.body['id']);
  await sql`update webhook set client = ${app?.id ?? 0} where id = ${id}`;
  await sql`insert into access_grant (id, client, user_id, store_id, scope, date_created)
    values (${1_000_000 + id}, ${app?.id ?? 0}, ${people.adaId}, ${storeId}, 'store_full_access', ${people.now()})`;
  for (const [outcome, count] of Object.entries(attempts))
    await sql`insert into webhook_hour (shard, webhook_id, hour, outcome, attempts, durations)
      values (${id % 256}, ${id}, date_trunc('hour', ${people.now()}::timestamptz), ${outcome}, ${count}, '{}')`;
  return id;
}

async function read(query = '') {
  const { status, text } = await browser.open(path + query);
  assert.equal(status, 200);
  return text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
}

await createWebhook(people.alpha, 'Parcels', { delivered: 98, refused: 1 });
const failing = await createWebhook(people.beta, 'Labels', { delivered: 1, refused: 2, 'timed_out:answer': 5 });
await sql`insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at)
  values (${failing % 256}, ${failing}, 0, 7, ${people.now()})`;

test('the page sums up the webhooks of all stores, and lists failing ones first with their most frequent error', async () => {
  const page = await read();
  assert.match(page, /2 webhooks in 2 stores: 1 is failing\. 99 of 107 attempts in the last 24 hours succeeded\./);
  assert.match(page, /Failed attempts: timed_out:answer 5 refused 3/);
  assert.match(page, /Beta Labels Failing 1 7 timed_out:answer Alpha Parcels Delivering 98 1 refused/);
});

test('a store is found by a part of its name, in which no character is a wildcard', async () => {
  const found = await read('?store=lph');
  assert.match(found, /Alpha Parcels/);
  assert.doesNotMatch(found, /Beta Labels/);
  assert.match(found, /2 webhooks in 2 stores/, 'the sums are of all stores');
  assert.match(await read('?store=%25'), /No store with this name/);
});

test('another app of the same person shows none of them, and says what this place will show', async () => {
  const other = await newApp(browser, { name: 'Other' });
  assert.match((await browser.open(other.path)).text, /has created no webhooks yet/);
});

test('after the end of its access to a store the app shows its webhooks there no longer', async () => {
  const grant = sql`client = ${app?.id ?? 0} and store_id = ${people.beta}`;
  await sql`update access_grant set date_revoked = ${people.now()} where ${grant}`;
  const page = await read();
  assert.match(page, /1 webhook in 1 store: none is failing/);
  assert.doesNotMatch(page, /Labels|Beta/);
});
