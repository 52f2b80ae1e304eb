/** `halcyon publish`: the events of a file are published once each, whatever fails on the way. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request as send, type IncomingMessage, type ServerResponse } from 'node:http';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, type Readable } from 'node:stream';
import { after, beforeEach, test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import { startTestApp } from '../setup/app.ts';
import { startCommand, startProcess, type Ended, type Running } from '../setup/command.ts';
import { freePort } from '../setup/free-port.ts';
import { until } from '../setup/until.ts';

const app = await startTestApp({ roles: ['serve'] });
const { sql } = app;
const folder = await mkdtemp(join(tmpdir(), 'halcyon-publish-'));
after(() => rm(folder, { recursive: true }));
const platform = await createClient(sql, { name: 'Shop', redirectUris: [], trusted: true, now: app.clock.now() });

/** What happens to a publishing request, by the number of requests before it; undefined forwards it. */
let fate: (n: number) => 'busy' | 'paged' | 'lost' | 'held' | undefined = () => undefined;
let posts: { atMs: number; lines: number }[] = [];
let held: ServerResponse[] = [];

const bodyOf = async (message: IncomingMessage): Promise<Buffer> =>
  Buffer.concat(await Array.fromAsync(message as AsyncIterable<Buffer>));

/** A proxy between the command and Halcyon. A request whose answer is lost or delayed is published all the same. */
const gate = createServer((request, response) => {
  const pass = async () => {
    const body = await bodyOf(request);
    const isPost = request.url?.endsWith('/events') === true;
    const what = isPost ? fate(posts.length) : undefined;
    if (isPost) posts.push({ atMs: performance.now(), lines: (JSON.parse(body.toString()) as unknown[]).length });
    if (what === 'paged') return response.end('<html>Sign in to the network</html>');
    if (what === 'busy') return response.writeHead(503, { 'Retry-After': '1' }).end();
    const { method, headers } = request;
    const asked = send(app.baseUrl + request.url, { method, headers });
    asked.end(body);
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    const text = await bodyOf(answer);
    if (what === 'lost') return response.destroy();
    if (what === 'held') return held.push(response);
    return response.writeHead(answer.statusCode ?? 0, answer.headers).end(text);
  };
  pass().catch(() => response.destroy());
}).listen(0, '127.0.0.1');
await once(gate, 'listening');
after(() => gate.close());
const url = `http://127.0.0.1:${(gate.address() as AddressInfo).port}`;

const client = { HALCYON_CLIENT_ID: platform.client_id, HALCYON_CLIENT_SECRET: platform.client_secret };
const env = { HALCYON_URL: url, ...client, HALCYON_DATA: join(folder, 'none') };

type Options = { input?: Readable; env?: Record<string, string> };

const start = (args: readonly string[], { input, env: own = env }: Options = {}): Running =>
  startCommand(['publish', ...args], own, { cwd: folder, ...(input && { input: () => input }) });
const publish = (args: readonly string[], options?: Options): Promise<Ended> => start(args, options).ended;

let storeId = '';
beforeEach(async () => {
  [fate, posts, held] = [() => undefined, [], []];
  const store = { name: 'S', domain: 's.example', email: 'a@example.com', timeZone: 'UTC', now: app.clock.now() };
  storeId = String((await createStore(sql, store)).id);
});

const order = (id: number, more: object = {}): string =>
  JSON.stringify({ event: 'transaction/created', resource: { id, ...more } });
const orders = (count: number): string[] => Array.from({ length: count }, (_, n) => order(n));
async function file(lines: readonly string[]): Promise<string> {
  await writeFile(join(folder, 'orders.jsonl'), lines.join('\n'));
  return 'orders.jsonl';
}
/** Returns the resources' ids, one an event. */
async function published(): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select resource_id::int as id from event where store_id = ${storeId} order by 1`;
  return rows.map(({ id }) => id);
}
const each = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

test('a file is published, and publishing the same file again publishes nothing', async () => {
  const lines = [...orders(3), '', order(1, { total: 2 }), order(2), order(2)];
  const name = await file(lines);
  const first = await publish([name, '--store', storeId]);
  assert.deepEqual([first.code, first.err], [0, '']);
  assert.match(first.out, /^6 events published in /);
  assert.deepEqual(await published(), [0, 1, 1, 2, 2, 2]);
  await file(lines.toSpliced(1, 1));
  assert.equal((await publish([name, '--store', storeId])).code, 0);
  assert.equal((await published()).length, 6, 'none of the remaining events is published twice');
});

test('an event whose key is null or empty gets a derived key, as an event without one', async () => {
  const lines = [null, ''].map((none, n) => order(n).replace('{', `{"idempotency_key": ${JSON.stringify(none)},`));
  const name = await file(lines);
  assert.equal((await publish([name, '--store', storeId])).code, 0);
  await file(orders(2));
  assert.equal((await publish([name, '--store', storeId])).code, 0);
  assert.deepEqual(await published(), [0, 1]);
});

test('an empty file is reported', async () => {
  const { code, out } = await publish([await file(['', ' ']), '--store', storeId]);
  assert.deepEqual([code, out.startsWith('0 events published')], [0, true]);
});

test('an address at which no Halcyon answers is named, with what to check', async () => {
  const page = createServer((_, response) => void response.end('<html>Welcome!</html>')).listen(0, '127.0.0.1');
  await once(page, 'listening');
  after(() => page.close());
  const { port } = page.address() as AddressInfo;
  const { code, err } = await publish([await file(orders(1)), '--store', storeId, '--url', `http://127.0.0.1:${port}`]);
  assert.equal(code, 1);
  assert.match(err, /127\.0\.0\.1:\d+ is no Halcyon.*--url/);
});

test('a fault whose message does not begin with its field is printed with it', async () => {
  const faults = [
    { code: 'x', field: '0.resource.id', message: '0.resource.id must be short' },
    { code: 'x', field: '0.id', message: 'invalid' },
    { code: 'x', message: 'too many' },
  ];
  const server = createServer((request, response) => {
    request.resume();
    if (request.url === '/token') return response.end('{"access_token":"t","expires_in":3600}');
    return response.writeHead(400).end(JSON.stringify({ _embedded: { 'svc:errors': faults } }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const { err } = await publish([await file(orders(1)), '--store', storeId, '--url', `http://127.0.0.1:${port}`]);
  const lines = ['resource.id must be short', 'id: invalid', 'too many'].map((text) => `orders.jsonl:1: ${text}\n`);
  assert.ok(err.startsWith(lines.join('')), err);
});

test('an answer that reports no events counts as no publish', async () => {
  fate = () => 'paged';
  const { code, out, err } = await publish([await file(orders(1)), '--store', storeId]);
  assert.deepEqual([code, out], [1, '']);
  assert.match(err, /is no Halcyon: check --url/);
});

test('of the lines of one resource the last is the latest, however many arrays they are in', async () => {
  const lines = Array.from({ length: 600 }, (_, n) => order(1, { n }));
  assert.equal((await publish([await file(lines), '--store', storeId])).code, 0);
  const [latest] = await sql<{ version: number; n: number }[]>`
    select version, (body::json ->> 'n')::int as n from resource where store_id = ${storeId}`;
  assert.deepEqual({ ...latest }, { version: 600, n: 599 });
});

test('piped input is published as it comes, without waiting for a full array', async () => {
  const input = new PassThrough();
  const running = publish(['-', '--store', storeId], { input });
  input.write(`${order(1)}\n`);
  await until(published, ({ length }) => length === 1);
  input.end(order(2));
  assert.equal((await running).code, 0);
  assert.deepEqual(await published(), [1, 2]);
});

test('after a kill in the middle the same command publishes each event once', async () => {
  const name = join(folder, await file(orders(1_200)));
  fate = (n) => (n === 1 ? 'held' : undefined);
  const killed = startProcess(['publish', name, '--store', storeId], env);
  await until(
    async () => held.length,
    (count) => count === 1,
  );
  killed.kill('SIGKILL');
  await killed.ended;
  assert.equal((await published()).length, 1_000, 'two of three arrays have arrived');
  fate = () => undefined;
  const again = await publish([name, '--store', storeId, '--json']);
  assert.equal((JSON.parse(again.out) as { published: number }).published, 1_200);
  assert.deepEqual(await published(), each(1_200));
});

test('it stops at a rejected line: all lines before it are published, none after it, and the corrected file continues', async () => {
  const lines = orders(6);
  const name = await file(lines.with(3, order(3).replace('created', 'made')));
  const stopped = await publish([name, '--store', storeId]);
  assert.equal(stopped.code, 1);
  assert.match(stopped.err, /^orders\.jsonl:4: event must be /);
  assert.match(stopped.err, / line 4\. 3 events .*same command/);
  assert.deepEqual(await published(), [0, 1, 2]);
  await file(lines);
  assert.equal((await publish([name, '--store', storeId])).code, 0);
  assert.deepEqual(await published(), each(6));
});

type Report = { complete: boolean; published: number; refused: number; faults: { line: number }[] };
const deep = `{"a":`.repeat(120) + '1' + '}'.repeat(120);
const faulty: readonly (readonly [line: string, message: RegExp])[] = [
  ['{"event":', /not JSON/],
  ['1', /not an event/],
  ['null', /not an event/],
  ['"x"', /not an event/],
  [order(1).replace('created', 'made'), /event must be one of/],
  [order(1).replace('"id":1', '"id":1,"total":1,"total":2'), /resource\.total occurs twice/],
  [order(1, { name: '\u0000' }), /resource\.name: .*NUL/],
  ['{"event":"changelog/created","resource":{"id":1}}', /written by Halcyon itself/],
  [`{"event":"transaction/created","resource":{"id":1,"a":${deep}}}`, /nested more than/],
  [order(1, { note: 'x'.repeat(300_000) }), /at most 262144 bytes/],
  [order(1, { note: 'x'.repeat(2_200_000) }), /longer than 2097152 bytes/],
  [JSON.stringify({ ...JSON.parse(order(0)), idempotency_key: ' ' }), /idempotency_key must be/],
];

test('--keep-going publishes all other lines and names each rejected one', async () => {
  const lines = faulty.flatMap(([line], n) => [order(n), line]);
  const ended = await publish([await file(lines), '--store', storeId, '--keep-going', '--json']);
  assert.equal(ended.code, 2);
  assert.deepEqual(await published(), each(faulty.length));
  const report = JSON.parse(ended.out) as Report;
  assert.deepEqual([report.complete, report.published, report.refused], [true, faulty.length, faulty.length]);
  assert.deepEqual(
    report.faults.map(({ line }) => line).toSorted((a, b) => a - b),
    faulty.map((_, n) => 2 * n + 2),
  );
  for (const [n, [, message]] of faulty.entries()) {
    const own = ended.err.split('\n').find((line) => line.startsWith(`orders.jsonl:${2 * n + 2}: `));
    assert.match(own ?? '', message);
  }
});

test('a JSON array is called one, however it is written, and with the way to publish it', async () => {
  const events = orders(3).map((line) => JSON.parse(line) as object);
  const texts = [
    JSON.stringify(events),
    JSON.stringify(events, null, 2),
    `[${orders(3).join(',\n')}]`,
    ` [\n${orders(1)[0]}\n]`,
    '[]',
    '[1]',
  ];
  for (const text of texts) {
    const { code, err } = await publish([await file([text]), '--store', storeId]);
    assert.equal(code, 1, err);
    assert.match(err, /^orders\.jsonl:1: .*JSON array: .*one line.*jq -c "\.\[\]"/, text);
  }
  assert.deepEqual(posts, []);
});

test('a token that expires in the middle is replaced by another', async () => {
  fate = (n) => {
    if (n === 1) app.clock.advance(3 * 3_600_000);
    return undefined;
  };
  // With the end of the last line, because the end of the file may come later than a line that waits for more is sent.
  assert.equal((await publish([await file([...orders(700), '']), '--store', storeId])).code, 0);
  assert.deepEqual(
    posts.map(({ lines }) => lines),
    [500, 200, 200],
  );
  assert.deepEqual(await published(), each(700));
});

test('a busy server is asked again after the time it named, and a lost answer leads to no second publish', async () => {
  fate = (n) => (['busy', 'lost'] as const)[n];
  const ended = await publish([await file([...orders(20), '']), '--store', storeId]);
  assert.equal(ended.code, 0);
  assert.equal(posts.length, 3);
  assert.ok((posts[1]?.atMs ?? 0) - (posts[0]?.atMs ?? 0) >= 990, 'Retry-After is waited for');
  assert.match(ended.err, /^.* 503: .* 60 s\n$/);
  assert.deepEqual(await published(), each(20));
});

test('without a server it ends with a message', async () => {
  const nowhere = { ...env, HALCYON_URL: `http://127.0.0.1:${await freePort()}` };
  const ended = await publish([await file(orders(1)), '--store', storeId, '--retry-for', '0'], { env: nowhere });
  assert.equal(ended.code, 3);
  assert.match(ended.err, /^halcyon: no answer .*ECONNREFUSED/);
});

test('on a stop signal it stops at once, also while it waits, and prints how to continue', async () => {
  fate = () => 'held';
  const running = start([await file(orders(5)), '--store', storeId]);
  await until(
    async () => held.length,
    (count) => count === 1,
  );
  running.kill('SIGINT');
  const ended = await running.ended;
  assert.equal(ended.code, 130);
  assert.match(ended.err, /^halcyon: SIGINT: 0 .*possibly .*same command/m);
});

test("the demo's file names its server and credentials, and its secret is sent nowhere else", async () => {
  const demo = { base_url: url, store_id: Number(storeId), platform };
  await writeFile(join(folder, 'demo.json'), JSON.stringify(demo));
  const name = await file(orders(1));
  assert.equal((await publish([name], { env: { HALCYON_DATA: folder } })).code, 0);
  assert.deepEqual(await published(), [0]);
  const elsewhere = await publish([name, '--store', storeId, '--url', `${url}/x`], { env: { HALCYON_DATA: folder } });
  assert.match(elsewhere.err, /^halcyon: Set the client/);
});

test('the output of client create --json works as credentials; rejected credentials get a message with what to check', async () => {
  const name = await file(orders(1));
  const place = [name, '--store', storeId, '--url', url, '--client-secret-file', 'platform.json'];
  await writeFile(join(folder, 'platform.json'), JSON.stringify(platform));
  assert.equal((await publish(place, { env: {} })).code, 0);
  assert.deepEqual(await published(), [0]);
  await writeFile(join(folder, 'platform.json'), JSON.stringify({ ...platform, client_secret: 'another' }));
  assert.match((await publish(place, { env: {} })).err, /^halcyon: No token .* 401: .*--url.*--client-id/);
  await writeFile(join(folder, 'platform.json'), '{}');
  assert.match((await publish(place, { env: {} })).err, /^halcyon: --client-secret-file: .*platform\.json .*client_id/);
});
