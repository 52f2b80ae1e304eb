/** An operator sees the state of the service and what fails now, finds stores and apps by search, and what operators did. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { createBrowser, PASSWORD } from '../security/oauth-server.ts';
import { enrol, makeOperator, openConsole } from '../security/operators.ts';
import { hiddenIn } from '../security/page-forms.ts';
import { passwords } from '../setup/passwords.ts';
import { inhabit } from '../setup/populated-app.ts';
import { homeOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';

const PLATFORM_STORE = 999_999;
const { server, receiver, tokens, call, webhooks, alpha, foreign, sql } = await inhabit({
  env: { PLATFORM_STORE: String(PLATFORM_STORE) },
});
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

const act = async (path: string, fields: Record<string, string> = {}): Promise<void> => {
  const page = await openConsole(operator, factor, path);
  const { status, text } = await operator.post(path, { ...hiddenIn(page, path), ...fields });
  assert.equal(status, 303, text);
};

/** Returns the texts of the cells of a table. */
function cellsOf(text: string, label: string): string[][] {
  const [table = ''] = new RegExp(`aria-label="${label}">.*?</table>`, 's').exec(text) ?? [];
  const rows = [...(/<tbody>(.*)<\/tbody>/s.exec(table)?.[1] ?? '').matchAll(/<tr>(.*?)<\/tr>/gs)];
  return rows.map(([, row = '']) =>
    [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell = '']) =>
      cell
        .replaceAll(/<[^>]*>/g, '')
        .replaceAll(/\s+/g, ' ')
        .trim(),
    ),
  );
}

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
  assert.deepEqual(new Set(cellsOf(text, 'What fails now').map(([, , , state]) => state)), new Set(['Failing']));
});

test('the first page has the pending deliveries and the size of each database, and what is published and delivered per second', async () => {
  const body = {
    event: 'transaction/created',
    resource: { id: 9_001, total_order: 5, date_created: '2026-07-01T10:00:00+0000' },
  };
  const databases = async () => cellsOf((await openConsole(operator, factor)).text, 'Databases');
  const [[name, ...first] = []] = await databases();
  assert.deepEqual([name, ...first.slice(0, 2)], ['home', '–', '–']);
  const rows = await until(
    async () => {
      assert.equal((await call('POST', `/stores/${alpha}/events`, { token: tokens.platform, body })).status, 201);
      server.wait(6_000);
      return databases();
    },
    (found) => found.some(([, published]) => Number(published) > 0) && found.some(([, , ended]) => Number(ended) > 0),
  );
  const pending = rows.reduce((sum, [, , , count]) => sum + Number(count), 0);
  assert.ok(pending >= 3, `${pending} deliveries of the warehouse wait`);
  const spaces = rows.map(([, , , , , , size = '', free = '']) => `${size} ${free}`);
  for (const [index, space] of spaces.entries())
    assert.match(space, index === 0 ? /^[\d.]+ MB [\d.,]+ .B$/ : /^[\d.]+ MB –$/);
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

test('what operators and the platform did is in the audit and the changelog, and what was suspended does not fail', async () => {
  const [store, app] = [`/operator/stores/${alpha}`, `/operator/apps/${server.client.client_id}`];
  const reason = 'It sends spam';
  await act(store, { reason });
  // The worker ends its pending deliveries.
  const ofStoreNow = await until(
    async () => cellsOf((await openConsole(operator, factor, store)).text, 'Webhooks'),
    (rows) => rows.some(([, webhook, , , missing]) => webhook?.startsWith('Warehouse') && missing !== '0'),
  );
  assert.deepEqual(new Set(ofStoreNow.map(([, , , state]) => state)), new Set(['Suspended', 'Disabled']));
  // It is counted every five seconds at most.
  const failing = await until(
    async () => cellsOf((await openConsole(operator, factor)).text, 'What fails now'),
    (rows) => rows.every(([name, webhook]) => name !== 'Alpha' || !webhook?.startsWith('Warehouse')),
  );
  assert.deepEqual(
    failing.filter(([, webhook]) => webhook?.startsWith('Warehouse')).map(([name]) => name),
    ['Foreign'],
  );
  await act(store);
  await act(app, { reason: 'It leaks' });
  const changes = await call('GET', `/stores/${alpha}/changelogs?resource=store&limit=2`, { token: tokens.platform });
  const { _embedded: embedded } = (await changes.json()) as { _embedded: { [rel: string]: Record<string, unknown>[] } };
  assert.deepEqual(
    Object.values(embedded).flatMap((entries) => entries.map(({ actor, before, after }) => ({ actor, before, after }))),
    [
      { actor: 'operator', before: { suspended_reason: reason }, after: { suspended_reason: null } },
      { actor: 'operator', before: { suspended_reason: null }, after: { suspended_reason: reason } },
    ],
  );
  const body = { name: 'Renamed by the platform' };
  assert.equal((await call('PATCH', `/stores/${alpha}`, { token: tokens.platform, body })).status, 200);
  const audit = async (by: string, q: string | number) => {
    const query = new URLSearchParams({ by, q: String(q) }).toString();
    const { text } = await openConsole(operator, factor, `/operator/audit?${query}`);
    const changed = cellsOf(text, 'Changes by the platform and by commands').map(([, what]) => what);
    return { acts: cellsOf(text, 'Audit').map(([, ...cells]) => cells), changed };
  };
  const ofStore = [
    [email, 'Ended the suspension of the store Renamed by the platform', '–'],
    [email, 'Suspended the store Renamed by the platform', reason],
  ];
  const ofApp = [email, 'Suspended the app Mailer', 'It leaks'];
  const { acts, changed } = await audit('store_id', alpha);
  assert.deepEqual(acts, ofStore);
  assert.equal(changed[0], 'The platform changed name of the store');
  assert.ok(changed.every((sentence) => !/suspen/.test(sentence ?? '')));
  assert.deepEqual((await audit('client_id', server.client.client_id)).acts[0], ofApp);
  assert.deepEqual((await audit('email', email)).acts.slice(0, 3), [ofApp, ...ofStore]);
  assert.deepEqual((await audit('email', 'stranger@example.com')).acts, []);
  assert.deepEqual((await audit('email', '')).acts.slice(0, 3), [ofApp, ...ofStore]);
});

test('the audit has what programs of the platform did, and nothing that people or Halcyon did', async () => {
  const made = async (path: string, body: object) => {
    const response = await call('POST', path, { token: tokens.platform, body });
    assert.equal(response.status, 201, await response.clone().text());
    return (await response.json()) as { client_id?: string };
  };
  const newcomer = 'newcomer@example.com';
  await made('/users', { email: newcomer, password: PASSWORD });
  const { client_id: madeByPlatform = '' } = await made('/clients', {
    name: 'Of the platform',
    redirect_uris: ['https://a.example.com/cb'],
  });
  const entries = async (by: string, q: string) => {
    const query = new URLSearchParams({ by, q, limit: '300' }).toString();
    const { text } = await openConsole(operator, factor, `/operator/audit?${query}`);
    return cellsOf(text, 'Audit').map(([, who, what]) => `${who}: ${what}`);
  };
  assert.deepEqual(await entries('email', newcomer), [`Platform: Created the account of ${newcomer}`]);
  assert.deepEqual(await entries('client_id', madeByPlatform), ['Platform: Created the app Of the platform']);
  // Retention ends earlier access of an app; a person changes their address.
  await sql`
    insert into audit (id, action, user_id, address, detail, date_created)
    values (nextval('id_n'), 'grant_retired', ${id}, null, '{}', now()), (nextval('id_n'), 'email_changed', ${id}, '127.0.0.1', '{}', now())`;
  const all = await entries('email', '');
  assert.deepEqual(
    all.filter((one) => /Signed in|connected|earlier access|e-mail address/i.test(one)),
    [],
  );
});

test('the page of events names the webhooks that read a type or a member, and what is wrong with a search', async () => {
  const find = async (q: string) =>
    (await openConsole(operator, factor, `/operator/events?${new URLSearchParams({ q }).toString()}`)).text;
  const readers = cellsOf(await find('transaction/created'), 'Webhooks');
  assert.ok(readers.length > 0);
  for (const [name = '', webhookId, store, places] of readers) {
    const [row] = await sql<
      { name: string; store: number }[]
    >`select name, store_id as store from webhook where id = ${Number(webhookId)}`;
    assert.deepEqual([name, store, places], [row?.name, String(row?.store), 'events']);
  }
  const [{ count } = { count: 0 }] = await sql<{ count: number }[]>`
    select count(*)::int from webhook where 'transaction/created' = any(events)`;
  assert.equal(readers.length, count);
  assert.match(await find('transaction/no_such_member'), /No webhook reads transaction\/no_such_member/);
  assert.match(await find('<b>'), /There is no type &lt;b&gt;/);
});

test('the suspension of a store is sent to the webhooks of the platform store', async () => {
  const home = homeOf(sql);
  await home`
    insert into store select (jsonb_populate_record(s, ${JSON.stringify({
      id: PLATFORM_STORE,
      shard: PLATFORM_STORE % 256,
      domain: 'platform.example.com',
    })}::jsonb)).* from store s where id = ${alpha}`;
  const body = {
    name: 'Operator',
    url: `${receiver.url}/operator`,
    format: 'json',
    encryption_key: 'key',
    event_resource: 'operator_event',
  };
  const made = await call('POST', `/stores/${PLATFORM_STORE}/webhooks`, { token: tokens.platform, body });
  assert.equal(made.status, 201, await made.text());
  await act(`/operator/stores/${foreign}`, { reason: 'It copies another shop' });
  const read = async () =>
    receiver.got
      .filter(({ path }) => path === '/operator')
      .map(({ headers, body: got }) => ({ headers, event: JSON.parse(String(got)) as Record<string, unknown> }))
      .filter(({ event }) => event['reason'] === 'It copies another shop');
  const [sent] = await until(read, ({ length }) => length > 0);
  assert.equal(sent?.headers['service-webhook-event'], 'operator_event/store_suspended');
  assert.equal(sent?.event['store_id'], foreign);
  await act(`/operator/stores/${foreign}`);
});
