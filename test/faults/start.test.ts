/** A start that cannot succeed prints one clear line that says what to do, and leaves nothing incomplete. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { runProcess } from '../setup/command.ts';
import { placeForFixture, startFixture } from '../setup/fixture.ts';
import { until } from '../setup/until.ts';
import type { DemoFile } from '../../src/cli/demo.ts';

function oneLine(text: string): string {
  const lines = text.trim().split('\n');
  assert.equal(lines.length, 1, text);
  return lines[0] ?? '';
}

test('a port in use is reported before anything is created', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const holder = createServer().listen(Number(place.env['PORT']), '127.0.0.1');
  await once(holder, 'listening');
  t.after(() => holder.close());
  const { code, err } = await runProcess(['serve'], place.env);
  assert.equal(code, 1);
  assert.match(oneLine(err), /Port \d+ on 127\.0\.0\.1 is taken: .*PORT/);
  assert.deepEqual(await readdir(place.dataDir), []);
});

const wrong: readonly (readonly [name: string, env: Record<string, string>, line: RegExp])[] = [
  ['PORT is no number', { PORT: 'http' }, /PORT is "http": set it to a whole number from 1 to 65535/],
  ['one port for two', { PORT: '18080', METRICS_PORT: '18080' }, /PORT and METRICS_PORT are the same/],
  ['BASE_URL is no address', { BASE_URL: 'example' }, /BASE_URL is not an address such as/],
  ['LOG_LEVEL is unknown', { LOG_LEVEL: 'loud' }, /LOG_LEVEL is "loud": set it to one of/],
  ['the secret key is too short', { HALCYON_SECRET_KEY: 'abc' }, /HALCYON_SECRET_KEY must be 32 bytes/],
  [
    'a second secret key without a first',
    { HALCYON_SECRET_KEY_OTHER: '0'.repeat(64) },
    /Set HALCYON_SECRET_KEY beside HALCYON_SECRET_KEY_OTHER/,
  ],
  [
    'one secret key twice',
    { HALCYON_SECRET_KEY: '0'.repeat(64), HALCYON_SECRET_KEY_OTHER: '0'.repeat(64) },
    /HALCYON_SECRET_KEY_OTHER is the same key as HALCYON_SECRET_KEY: omit it/,
  ],
  ['OUTBOUND_ALLOW is no network', { OUTBOUND_ALLOW: 'localhost' }, /OUTBOUND_ALLOW has "localhost": write networks/],
  ['DATABASE_URL is no address', { DATABASE_URL: 'mysql://x' }, /DATABASE_URL is not an address/],
  ['DATABASE_URL without a key', { DATABASE_URL: 'postgres://u@127.0.0.1:1/x' }, /Set HALCYON_SECRET_KEY/],
  [
    'no server answers',
    { DATABASE_URL: 'postgres://u@127.0.0.1:1/x', HALCYON_SECRET_KEY: '0'.repeat(64) },
    /PostgreSQL cannot be used: .*ECONNREFUSED.*DATABASE_URL/,
  ],
  [
    'the data folder is a file',
    { HALCYON_DATA: '/dev/null/x' },
    /data folder \/dev\/null\/x cannot be written .*HALCYON_DATA/,
  ],
];

for (const [name, env, line] of wrong) {
  test(`one line and its exit code: ${name}`, async (t) => {
    const place = await placeForFixture(env);
    t.after(() => place.remove());
    const { code, err } = await runProcess(['serve'], place.env);
    assert.match(oneLine(err), line);
    assert.equal(code, name === 'no server answers' ? 3 : 1);
    assert.deepEqual(await readdir(place.dataDir), []);
  });
}

test('an unknown command and an unknown option are reported, with the available ones', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  for (const args of [['sevre'], ['serve', '--colour']]) {
    const { code, err } = await runProcess(args, place.env);
    assert.equal(code, 2);
    assert.match(oneLine(err), /^halcyon: unknown .*: see halcyon .*--help$/);
  }
  const help = await runProcess(['--help'], place.env);
  assert.equal(help.code, 0);
  assert.match(help.out, /serve.*\n.*deliver/s);
});

test('a second start on the same folder says so and does not affect the first one', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const fixture = await startFixture(place);
  t.after(() => fixture.end('SIGKILL'));
  const other = await placeForFixture({ HALCYON_DATA: place.dataDir });
  t.after(() => other.remove());
  const { code, err } = await runProcess(['serve'], other.env);
  assert.equal(code, 1);
  assert.match(oneLine(err), /Another Halcyon is running on .*HALCYON_DATA/);
  assert.equal((await fetch(fixture.demo.base_url, { headers: { 'SERVICE-API-VERSION': '1' } })).status, 200);
});

test('the first start plays a day of the demo store: one webhook works, and one has failed for half an hour', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const { demo, end } = await startFixture(place);
  const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${demo.access_token}` };
  type Row = Readonly<Record<string, string | number | null>>;
  const list = async (path: string, rel: string): Promise<Row[]> => {
    const response = await fetch(`${demo.base_url}/stores/${demo.store_id}/${path}`, { headers });
    return ((await response.json()) as { _embedded: Record<string, Row[]> })._embedded[`svc:${rel}`] ?? [];
  };
  const webhooks = await list('webhooks', 'webhooks');
  assert.deepEqual(
    webhooks.map(({ state }) => state),
    ['ok', 'failing'],
  );
  const [works, fails] = webhooks.map(({ id }) => id);
  // Of the last half hour at each time of the day: the last five times have an order or more each, and the last order is 2125.
  const ofOrder = await list('statuses?resource_id=2121', 'statuses');
  const statesOf = (id: unknown) => ofOrder.filter(({ webhook_id: of }) => of === id).map(({ status }) => status);
  assert.deepEqual([statesOf(works), statesOf(fails)], [['successful', 'successful'], ['pending']]);
  const endOf = async (order: string) =>
    (await list(`events?limit=1&event=transaction%2Fcreated&order=${order}`, 'events'))[0];
  const [first, last] = [await endOf('id'), await endOf('id%20desc')];
  const dateOf = (event: Row | undefined): number => Date.parse(String(event?.['date_created']).replace('+0000', 'Z'));
  const hours = (dateOf(last) - dateOf(first)) / 3_600_000;
  assert.ok(hours > 22 && hours < 24, `${hours} hours`);
  assert.ok(dateOf(last) <= Date.now());
  assert.equal(await end('SIGTERM'), 0);
});

test('from its first moment a start refuses, or responds rightly: the first one and the next', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const origin = `http://127.0.0.1:${place.env['PORT']}`;
  const versioned = { 'SERVICE-API-VERSION': '1' };
  const statusOf = (path: string, init: RequestInit = {}): Promise<string> =>
    fetch(origin + path, { headers: versioned, ...init }).then(
      ({ status }) => String(status),
      () => 'refused',
    );
  const fileOf = (): Promise<DemoFile | undefined> =>
    readFile(join(place.dataDir, 'demo.json'), 'utf8').then(
      (text) => JSON.parse(text) as DemoFile,
      () => undefined,
    );
  for (const isFirst of [true, false]) {
    const found = new Map<string, number>();
    const note = (what: string): void => void found.set(what, (found.get(what) ?? 0) + 1);
    let [isStarted, asked] = [false, 0];
    const fixture = startFixture(place).finally(() => (isStarted = true));
    const ask = async (): Promise<void> => {
      if (isStarted) asked += 1;
      const ready = await statusOf('/health/ready');
      note(`ready ${ready}`);
      const demo = await fileOf();
      if (demo === undefined) return ready === 'refused' ? undefined : note('open without demo.json');
      const form = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...demo.platform });
      const answer = await fetch(`${origin}/token`, { method: 'POST', body: form }).catch(() => undefined);
      const { access_token: issued } = ((await answer?.json()) ?? {}) as { access_token?: string };
      const tokens = { app: demo.access_token, ...(issued !== undefined && { platform: issued }) };
      for (const [who, token] of Object.entries(tokens)) {
        const headers = { ...versioned, Authorization: `Bearer ${token}` };
        note(`${who} ${await statusOf(`/stores/${demo.store_id}`, { headers })}`);
      }
    };
    // Until some responses after the start, however long it takes.
    await until(ask, () => asked >= 10, Infinity);
    const { end } = await fixture;
    t.diagnostic([...found].map(([what, count]) => `${what}: ${count}`).join(', '));
    const faults = [...found.keys()].filter((what) => !/ (?:200|refused)$|^ready 503$/.test(what));
    assert.deepEqual(faults, [], isFirst ? 'the first start' : 'the next start');
    assert.ok(found.has('app 200') && found.has('platform 200'));
    assert.equal(await end('SIGTERM'), 0);
  }
});

test('a start after Demo App was disconnected says so, and does not promise that an event arrives', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const first = await startFixture(place);
  assert.match(first.output(), /Try next: publish an event/);
  const { base_url, client, refresh_token: token } = first.demo;
  const { client_id, client_secret } = client;
  const body = new URLSearchParams({ token, client_id, client_secret });
  assert.equal((await fetch(`${base_url}/revoke`, { method: 'POST', body })).status, 200);
  assert.equal(await first.end('SIGTERM'), 0);
  const second = await startFixture(place);
  assert.match(second.output(), /^Demo App is no longer connected, so its webhook receives nothing/m);
  assert.doesNotMatch(second.output(), /Try next|\b400\b/);
  assert.equal(await second.end('SIGTERM'), 0);
});

test('a second start keeps the data; SIGTERM, SIGINT and SIGHUP each stop it gracefully', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  let first: string | undefined;
  let orders: unknown;
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    const fixture = await startFixture(place);
    const { demo } = fixture;
    // The access token is new at each start; everything else stays.
    const lasting = JSON.stringify({ ...demo, access_token: '' });
    first ??= lasting;
    assert.equal(lasting, first);
    const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${demo.access_token}` };
    const totalOf = async (path: string) => {
      const response = await fetch(`${demo.base_url}/stores/${demo.store_id}/${path}`, { headers });
      return ((await response.json()) as { total_items: string }).total_items;
    };
    assert.equal(await totalOf('webhooks'), '2');
    orders ??= await totalOf('transactions');
    assert.equal(await totalOf('transactions'), orders, 'the day of the demo is played once');
    assert.equal(await fixture.end(signal), 0);
  }
});

test('commands work beside a running server, and by themselves', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const fixture = await startFixture(place);
  const beside = await runProcess(['user', 'create', 'ada@example.com'], place.env);
  assert.equal(beside.code, 0, beside.err);
  const user = JSON.parse(beside.out) as { id: number; password: string };
  const again = await runProcess(['user', 'create', 'ADA@example.com'], place.env);
  assert.equal(again.code, 1);
  assert.match(oneLine(again.err), /Another user has this e-mail address/);
  assert.equal(await fixture.end('SIGTERM'), 0);

  const store = await runProcess(
    ['store', 'create', '--name', 'Ada', '--domain', 'ada.example', '--email', 'a@ada.example'],
    place.env,
  );
  const { id } = JSON.parse(store.out) as { id: number };
  const member = await runProcess(['store', 'add-member', String(id), String(user.id)], place.env);
  assert.equal(member.code, 0, member.err);
  const client = await runProcess(
    ['client', 'create', '--name', 'App', '--redirect-uri', 'https://a.example/cb'],
    place.env,
  );
  assert.match((JSON.parse(client.out) as { client_secret: string }).client_secret, /^hal_cs_/);
  const bad = await runProcess(
    ['client', 'create', '--name', 'App', '--redirect-uri', 'http://a.example/cb'],
    place.env,
  );
  assert.equal(bad.code, 1);
  assert.match(oneLine(bad.err), /must be https/);
});

test('a crash between the demo’s commit and its file leaves the next start working', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const fixture = await startFixture(place);
  await fixture.end('SIGKILL');
  // The state between writing the file and renaming it.
  const path = join(place.dataDir, 'demo.json');
  const { webhook_id: _made, ...half } = fixture.demo;
  await rename(path, `${path}.new`);
  await writeFile(`${path}.new`, JSON.stringify(half));
  const next = await startFixture(place);
  assert.equal(next.demo.refresh_token, fixture.demo.refresh_token);
  assert.deepEqual(next.demo.user, fixture.demo.user);
  assert.equal(await next.end('SIGTERM'), 0);
});
