/** `halcyon listen`: the events of a store are forwarded to an app on a computer that Halcyon cannot reach. */
import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { verifyDelivery } from '#receiver';
import { COMMAND_LINE_CLIENT, provideCommandLineClient } from '#identity/oauth/clients/clients.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { printed, runProcess, startProcess, type Running } from '../setup/command.ts';
import { personAtTerminal } from '../setup/person-at-terminal.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const USER = { email: 'owner@example.com', password: 'a long password' };

const ends = cleanups();
const app = await startTestApp();
await provideCommandLineClient(app.sql, app.clock.now());
const person = await personAtTerminal(app.baseUrl, USER, ends);
assert.equal((await person.login()).code, 0);

let nextId = 1;
async function publish(event: string, more: object = {}): Promise<number> {
  const id = nextId++;
  const body = { event, resource: { id, ...more } };
  const response = await app.api('POST', `/stores/${app.storeId}/events`, { token: app.platformToken, body });
  assert.equal(response.status, 201, await response.clone().text());
  return id;
}
async function webhooks(): Promise<{ id: number; name: string; is_held: string; events: string[] }[]> {
  const page = (await (await app.api('GET', `/stores/${app.storeId}/webhooks`)).json()) as {
    _embedded: Record<string, { id: number; name: string; is_held: string; events: string[] }[]>;
  };
  return Object.values(page._embedded).flat();
}

type Line = Readonly<Record<string, unknown>>;
type Listener = Running & { lines: () => Line[] };
type Listening = {
  forward: string | null;
  filter: string | null;
  encryption_key: string;
  webhooks: number[];
  events: string[];
};

/** Returns the listener once it listens. */
async function listening(command: Running): Promise<Listener & { listening: Listening }> {
  const first = await printed(command, /^(\{.*)\n/m);
  const lines = () =>
    command
      .said()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Line);
  return { ...command, lines, ...(JSON.parse(first) as { listening: Listening }) };
}
const listen = (...args: string[]) => listening(person.start('listen', '--json', ...args));

async function stop(listener: Listener): Promise<void> {
  listener.kill('SIGINT');
  assert.equal((await listener.ended).code, 0, listener.said());
}

test('an event is forwarded as Halcyon would have sent it, answered, and printed', async () => {
  const receiver = await startReceiver(ends);
  receiver.answer(
    (_got, response) => void response.writeHead(receiver.got.length === 1 ? 201 : 500, { 'X-App': 'mine' }).end('seen'),
  );
  const listener = await listen('--forward', receiver.url, '--query', 'zoom=items');
  assert.ok(
    (await webhooks()).some(({ name, is_held: held }) => name.startsWith('halcyon listen on ') && held === '1'),
  );
  const id = await publish('transaction/created', {
    total: 12.5,
    _embedded: { 'svc:items': [{ id: 1, name: 'Tea' }] },
  });
  await receiver.until(1);
  await publish('transaction/modified');
  await receiver.until(2);
  const [got] = receiver.got;
  assert.ok(got !== undefined);
  const delivery = await verifyDelivery({
    headers: got.headers,
    body: got.body,
    keys: [listener.listening.encryption_key],
  });
  assert.equal(delivery.event, 'transaction/created');
  const body = delivery.json() as { id: number; _embedded: object };
  assert.deepEqual([body.id, Object.keys(body._embedded)], [id, ['svc:items']]);
  assert.deepEqual([got.headers.host, got.headers.authorization], [new URL(receiver.url).host, undefined]);

  const [, first, second] = await until(
    async () => listener.lines(),
    (lines) => lines.length > 2,
  );
  assert.deepEqual(
    [first?.['event'], first?.['response_code'], first?.['verified']],
    ['transaction/created', 201, true],
  );
  assert.deepEqual([second?.['event'], second?.['response_code']], ['transaction/modified', 500]);
  const [webhook] = listener.listening.webhooks;
  const logs = async () => {
    const page = (await (await app.api('GET', `/webhooks/${webhook}/logs`, { token: app.platformToken })).json()) as {
      _embedded: Record<string, { response_code: number; response_body: string; response_headers: string }[]>;
    };
    return Object.values(page._embedded).flat();
  };
  const kept = await until(logs, (all) => all.length === 2);
  assert.deepEqual(new Set(kept.map(({ response_code: code }) => code)), new Set([201, 500]));
  for (const { response_body: text, response_headers: headers } of kept)
    assert.deepEqual([text, /^X-App: mine$/m.test(headers)], ['seen', true]);
  await stop(listener);
  assert.deepEqual(await webhooks(), [], 'the listener deletes its webhook when it stops');
});

test('an app that cannot be reached is reported', async () => {
  const closed = await startReceiver(ends);
  await closed.close();
  const { port } = new URL(closed.url);
  const listener = await listen('--forward', `${port}/hook`);
  assert.equal(listener.listening.forward, `http://localhost:${port}/hook`);
  await publish('transaction/created');
  const [, line] = await until(
    async () => listener.lines(),
    (lines) => lines.length > 1,
  );
  assert.deepEqual([line?.['response_code'], line?.['outcome']], [null, 'unreachable:connect']);
  await stop(listener);
});

test('several resources, selected events, and a key that stays the same', async () => {
  const keyFile = join(person.folder, 'key');
  const listener = await listen(
    '--events',
    'customer/created,transaction/refunded',
    '--key-file',
    keyFile,
    '--print-body',
  );
  assert.deepEqual(listener.listening.events.toSorted(), ['customer/created', 'transaction/refunded']);
  await publish('transaction/created');
  await publish('transaction/refunded');
  const id = await publish('customer/created', { first_name: 'Ada' });
  const lines = await until(
    async () => listener.lines().slice(1),
    (all) => all.length === 2,
  );
  const customer = lines.find(({ event }) => event === 'customer/created');
  assert.equal((customer?.['body'] as { id: number } | undefined)?.id, id);
  await stop(listener);
  const again = await listen('--key-file', keyFile);
  assert.equal(again.listening.encryption_key, listener.listening.encryption_key);
  await stop(again);
});

test('a filter lets only the events pass whose resource meets its conditions, and an invalid one is rejected', async () => {
  const filter = 'total_order:greaterthan=100&currency_code=EUR';
  const listener = await listen('--filter', filter, '--events', 'transaction/created,customer/created', '--print-body');
  assert.equal(listener.listening.filter, filter);
  await publish('transaction/created', { total_order: 101, currency_code: 'CHF' });
  await publish('transaction/created', { total_order: 99, currency_code: 'EUR' });
  const id = await publish('transaction/created', { total_order: 100.01, currency_code: 'EUR' });
  const customer = await publish('customer/created', { total_order: 200, currency_code: 'EUR' });
  const lines = await until(
    async () => listener.lines().slice(1),
    (all) => all.length === 2,
  );
  assert.deepEqual(new Set(lines.map(({ body }) => (body as { id: number }).id)), new Set([id, customer]));
  await stop(listener);
  const invalid = await person.run('listen', '--filter', 'total_order:greater=100');
  assert.deepEqual([invalid.code, /filter/.test(invalid.err)], [1, true], invalid.err);
  assert.deepEqual(await webhooks(), []);
});

test('the next listener removes the webhook of a killed one, and not that of a running one', async () => {
  const killed = await listening(startProcess(['listen', '--json'], person.env));
  killed.kill('SIGKILL');
  await killed.ended;
  const running = await listening(startProcess(['listen', '--json'], person.env));
  const third = await listen();
  const ids = (await webhooks()).map(({ id }) => id);
  assert.deepEqual(new Set(ids), new Set([...running.listening.webhooks, ...third.listening.webhooks]));
  await stop(running);
  await stop(third);
  assert.deepEqual(await readdir(join(person.folder, 'listening')), []);
});

test('an expired token loses no event, and an event that is in flight meanwhile is forwarded once', async () => {
  const receiver = await startReceiver(ends);
  const answered = Promise.withResolvers<void>();
  // The app delays its first answer until the stream has brought the event a second time.
  receiver.answer((_got, response) => {
    if (receiver.got.length > 1) response.writeHead(204).end();
    else void answered.promise.then(() => response.writeHead(204).end());
  });
  const listener = await listen('--forward', receiver.url);
  const ids = () => receiver.got.map(({ body }) => (JSON.parse(body.toString()) as { id: number }).id);
  const arrived = (id: number) =>
    until(
      async () => ids(),
      (all) => all.includes(id),
    );
  const first = await publish('transaction/created');
  await arrived(first);
  await app.sql`update access_token t set date_expires = ${app.clock.now()} from access_grant g join client c on c.id = g.client
    where g.id = t.grant_id and c.client_id = ${COMMAND_LINE_CLIENT}`;
  // The server ends the stream when it checks the token again; later events are answered with a new token.
  await until(
    async () => listener.said(),
    (said) => said.includes('Reconnected'),
  );
  const second = await publish('transaction/created');
  await arrived(second);
  const third = await publish('transaction/created');
  await arrived(third);
  assert.deepEqual(ids(), [first, second, third], 'each once');
  answered.resolve();
  await until(
    async () => listener.lines().length,
    (count) => count === 4,
  );
  await stop(listener);
});

test('an argument that the command cannot listen to is rejected at once', async () => {
  const unknown = await person.run('listen', '--events', 'transaction/exploded');
  assert.deepEqual(
    [unknown.code, /exploded.*possible: transaction\/created, /.test(unknown.err)],
    [1, true],
    unknown.err,
  );
  const both = await person.run('listen', '--events', 'a', '--resource', 'b', '--json');
  assert.deepEqual([both.code, /"code":"usage"/.test(both.err)], [2, true], both.err);
  await writeFile(join(person.folder, 'empty'), '');
  const empty = await person.run('listen', '--key-file', join(person.folder, 'empty'));
  assert.match(empty.err, /is empty/);
});

test('an empty list and a mistyped address are rejected', async () => {
  const mistyped: [option: string, value: string][] = [
    ['--events', ''],
    ['--resource', ' , '],
    ['--forward', 'http:/localhost:3000/hook'],
    ['--forward', 'htp://localhost:3000/hook'],
    ['--forward', 'localhost:3000/my hook'],
  ];
  for (const [option, value] of mistyped) {
    const { code, err } = await person.run('listen', option, value);
    assert.deepEqual([code, err.includes(`${option} is "${value}": `)], [2, true], err);
  }
});

test('halcyon trigger sends a sample event to all listeners and prints the answers', async () => {
  const closed = await person.run('trigger', 'transaction/created');
  assert.deepEqual([closed.code, /No listener receives transaction\/created/.test(closed.err)], [1, true], closed.err);
  const unknown = await person.run('trigger', 'transaction/exploded');
  assert.deepEqual(
    [unknown.code, /There are:\n(.*\n)* {2}customer\/modified/.test(unknown.err)],
    [2, true],
    unknown.err,
  );

  const receiver = await startReceiver(ends);
  receiver.answer((_got, response) => void response.writeHead(202).end());
  const listener = await listen('--forward', receiver.url);
  const done = await runProcess(['trigger', 'transaction/created'], person.env);
  assert.deepEqual([done.code, /your app answered 202/.test(done.out)], [0, true], done.err);
  const [got] = receiver.got;
  assert.equal(got?.headers['service-webhook-event'], 'transaction/created');
  assert.equal((JSON.parse(got.body.toString()) as { is_sample?: boolean }).is_sample, true);

  receiver.answer((_got, response) => void response.writeHead(500).end());
  const failed = await person.run(
    'trigger',
    'transaction/voided',
    '--webhook',
    String(listener.listening.webhooks[0]),
    '--json',
  );
  const [outcome] = JSON.parse(failed.out) as { status: string; response_code: number }[];
  assert.deepEqual([failed.code, outcome?.status, outcome?.response_code], [1, 'failed', 500]);
  await stop(listener);
});

test('a listener whose login has ended says so and exits', async () => {
  const other = await personAtTerminal(app.baseUrl, USER, ends);
  assert.equal((await other.login()).code, 0);
  const listener = other.start('listen');
  await printed(listener, /(ctrl-C ends it)/);
  assert.equal((await other.run('logout')).code, 0);
  assert.equal((await listener.ended).code, 1);
  assert.match(listener.said(), /You are not logged in/);
});
