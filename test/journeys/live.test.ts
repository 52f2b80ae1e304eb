/** The stream that notifies open pages that something has happened in their store. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startWithPeople } from '../security/api-callers.ts';
import { createBrowser } from '../security/oauth-server.ts';
import { createHistory } from '../setup/history.ts';
import { until } from '../setup/until.ts';

const people = await startWithPeople();
const { alpha, sql } = people;
const made = await people.call('POST', `/stores/${alpha}/webhooks`, {
  token: people.store,
  body: { name: 'Hook', format: 'json', encryption_key: 'a key of mine' },
});
const webhook = Number(made.body['id']);

const open = (storeId: number, cookie: string | undefined, query = ''): Promise<Response> =>
  fetch(`${people.origin}/stores/${storeId}/live${query}`, {
    redirect: 'manual',
    headers: { Accept: 'text/event-stream', ...(cookie !== undefined && { Cookie: cookie }) },
  });

/** Opens the stream of Ada's store. `hasChanged` waits until it has notified so many changes; `hasEnded` waits until the server ends it. */
async function listen(cookie: string | undefined, query = '') {
  const response = await open(alpha, cookie, query);
  assert.deepEqual([response.status, response.headers.get('content-type')], [200, 'text/event-stream']);
  let text = '';
  const read = async (): Promise<void> => {
    for await (const part of response.body ?? []) text += new TextDecoder().decode(part as Uint8Array);
  };
  let isEnded = false;
  void read().then(() => (isEnded = true));
  const hasEnded = () =>
    until(
      async () => isEnded,
      (ended) => ended,
    );
  const changes = (): number => text.split('data: changed\n\n').length - 1;
  const hasChanged = (count: number) =>
    until(
      async () => changes(),
      (seen) => seen === count,
    );
  return { changes, hasChanged, hasEnded };
}

test('a page is notified once it is connected, and of each new event of its store and each attempt', async () => {
  const history = createHistory(sql, { storeId: alpha, webhook });
  const first = await listen(people.browser.cookie());
  await first.hasChanged(1);
  await history.event(1);
  await first.hasChanged(2);
  const second = await listen(people.browser.cookie());
  await second.hasChanged(1);
  await history.attempt(1, 1, 500);
  await first.hasChanged(3);
  await second.hasChanged(2);
  await history.ended(1, 'failed');
  await sql`update delivery_done set date_started = ${new Date(people.now().getTime() + 3_600_000)} where webhook_id = ${webhook}`;
  await first.hasChanged(4);
});

test('a page that has seen everything is not notified', async () => {
  const headers = { Accept: 'text/html', Cookie: people.browser.cookie() ?? '' };
  const page = await (await fetch(`${people.origin}/stores/${alpha}/statuses`, { headers })).text();
  const [, query = ''] = /data-live="[^"?]*(\?[^"]*)"/.exec(page) ?? [];
  assert.match(query, /^\?seen=/);
  const upToDate = await listen(people.browser.cookie(), query);
  const other = await listen(people.browser.cookie());
  await other.hasChanged(1);
  assert.equal(upToDate.changes(), 0);
});

test('the first pages of deliveries, events and attempts are live, in their own order', async () => {
  const headers = { Accept: 'text/html', Cookie: people.browser.cookie() ?? '' };
  for (const list of [`/stores/${alpha}/statuses`, `/stores/${alpha}/events`, `/webhooks/${webhook}/logs`])
    for (const [query, isLive] of [
      ['', true],
      ['?offset=1', false],
      ['?order=id', false],
    ] as const) {
      const response = await fetch(people.origin + list + query, { headers });
      assert.equal(response.status, 200);
      assert.equal((await response.text()).includes('data-live='), isLive, list + query);
    }
});

test('the stream ends with the session, and with the membership', async () => {
  const browser = createBrowser(people.origin);
  await browser.signIn(people.ada);
  // Bob's membership ends, and Ada's session.
  const bob = createBrowser(people.origin);
  await bob.signIn(people.bob);
  await sql`insert into membership (shard, store_id, user_id, role, date_created)
    values (${alpha % 256}, ${alpha}, ${people.bobId}, 'member', ${people.now()})`;
  const [signedOut, removed] = [await listen(browser.cookie()), await listen(bob.cookie())];
  await browser.post('/sign-out', {});
  await sql`delete from membership where store_id = ${alpha} and user_id = ${people.bobId}`;
  await Promise.all([signedOut.hasEnded(), removed.hasEnded()]);
  assert.equal((await open(alpha, bob.cookie())).status, 404);
});

test('without a session, or for a store of others, there is no stream', async () => {
  for (const [storeId, cookie] of [
    [alpha, undefined],
    [people.foreign, people.browser.cookie()],
    [1, people.browser.cookie()],
  ] as const) {
    const response = await open(storeId, cookie);
    assert.equal(response.status, 404);
    await response.arrayBuffer();
  }
});

test('a store has a limit of streams, and the response says to close one', async () => {
  const streams = await Promise.all(Array.from({ length: 20 }, () => open(people.beta, people.browser.cookie())));
  assert.ok(streams.every(({ status }) => status === 200));
  const refused = await open(people.beta, people.browser.cookie());
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '5']);
  assert.match(await refused.text(), /close one of them first/);
  await streams[0]?.body?.cancel();
  await until(
    async () => {
      const again = await open(people.beta, people.browser.cookie());
      await again.body?.cancel();
      return again.status;
    },
    (status) => status === 200,
  );
  for (const { body } of streams.slice(1)) await body?.cancel();
});
