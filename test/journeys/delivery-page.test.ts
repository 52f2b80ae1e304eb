/** The page of one delivery: why it failed, what was sent, what it waits for, and how to send it again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { openSecondStore } from '../setup/second-store.ts';
import { until } from '../setup/until.ts';
import type { Representation } from '../setup/webhook-api.ts';

const KEY = 'whsec_VGhlIHF1aWNrIGJyb3duIGZveA==';
const app = await startTestApp();
const receiver = await startReceiver();
const { storeId, platformToken } = app;
const store = `/stores/${storeId}`;
/** The status that each path answers with. */
const answers = new Map<string, number>();
/** Until it is resolved, the path `/held` waits with its answer. */
let held = Promise.withResolvers<void>();
receiver.answer(({ path }, response) => {
  const status = answers.get(path) ?? 204;
  response.writeHead(status, { 'Content-Type': 'text/plain', ...(status === 503 && { 'Retry-After': '600' }) });
  const end = () => void response.end('the shelf is full');
  if (path === '/held') void held.promise.then(end);
  else end();
});

type Options = Parameters<typeof app.api>[2];
async function ask(method: string, path: string, options: Options = {}) {
  const response = await app.api(method, path, options);
  const text = await response.text();
  const { status, headers } = response;
  return { status, location: headers.get('location') ?? '', text, body: JSON.parse(text || '{}') as Representation };
}
const faultOf = ({ body }: { body: Partial<Representation> }) => body._embedded?.['svc:errors']?.[0];

/** Creates a webhook with a path of its own, and a function that publishes an event for it alone. */
async function open(path: string, changes: object = {}) {
  const settings = { name: path, format: 'json', encryption_key: KEY, event_resource: 'customer', ...changes };
  const body = { url: receiver.url + path, ...settings };
  const made = await ask('POST', `${store}/webhooks`, { body });
  assert.equal(made.status, 201, made.text);
  return `/webhooks/${String(made.body['id'])}`;
}
async function publish(id: number, more: object = {}) {
  const body = { event: 'customer/created', resource: { id, first_name: 'Zoë', ...more } };
  assert.equal((await ask('POST', `${store}/events`, { body, token: platformToken })).status, 201);
}
/** Makes the attempts of a webhook those of a process of the version before. */
async function asOfBefore(at: string): Promise<void> {
  const id = at.split('/').at(-1) ?? '';
  for (const table of ['attempt', 'delivery_done'])
    await app.sql`update ${app.sql(table)} set webhook_revision = null where webhook_id = ${id}`;
}
const switchTo = (at: string, is_active: '0' | '1') => ask('PATCH', at, { body: { is_active } });
const gotAt = (path: string): Got[] => receiver.got.filter((got) => got.path === path);

const selfOf = (delivery: Representation): string => delivery._links['self']?.href ?? '';

/** Returns the delivery of a webhook with its address, once one matches. Ids do not show which delivery is the newest. */
async function find(at: string, isWanted: (delivery: Representation) => boolean): Promise<Representation> {
  const found = await until(
    async () => {
      const { body } = await ask('GET', `${at}/statuses`);
      const pages = (body._embedded['svc:statuses'] ?? []).map((one) => ask('GET', selfOf(one)));
      return (await Promise.all(pages)).find((page) => isWanted(page.body));
    },
    (page) => page !== undefined,
  );
  assert.ok(found !== undefined);
  return found.body;
}
const attempted = (count: number) => (delivery: Representation) => delivery['attempts'] === count;
const is = (status: string) => (delivery: Representation) => delivery['status'] === status;
const requestOf = (delivery: Representation) => delivery._embedded['svc:request'] as unknown as Representation;
/** Beside the headers that the connection adds, in the order in which they came. */
const linesOf = ({ headers }: Got): string[] =>
  Object.entries(headers)
    .filter(([name]) => !['host', 'connection', 'content-length'].includes(name))
    .map(([name, value]) => `${name}: ${String(value)}`);
const shownLines = (request: Representation): string[] =>
  String(request['headers'])
    .split('\n')
    .map((line) => line.replace(/^[^:]+/, (name) => name.toLowerCase()));

test('a delivery whose endpoint answers 500 shows why, is sent again once the endpoint works, and arrives', async () => {
  answers.set('/mended', 500);
  const at = await open('/mended');
  await publish(1);
  const pending = await find(at, attempted(1));
  assert.match(String(pending['reason']), /^Your endpoint answered 500: .*log/);
  assert.equal(pending['waits_for'], 'The time of attempt 2.');
  assert.equal(pending._links['svc:resend'], undefined, 'it is retried anyway');
  const refused = await ask('POST', `${selfOf(pending)}/resend`);
  assert.deepEqual([refused.status, faultOf(refused)?.['code']], [409, 'already_pending']);
  assert.ok(String(faultOf(refused)?.['message']).endsWith(String(pending['date_next'])));
  assert.equal(refused.location, selfOf(pending));

  await switchTo(at, '0');
  const failed = await find(at, is('failed'));
  assert.match(String(failed['reason']), /^Your endpoint answered 500: /);
  const off = await ask('POST', failed._links['svc:resend']?.href ?? '');
  assert.deepEqual([off.status, faultOf(off)?.['code']], [409, 'inactive']);
  await switchTo(at, '1');
  answers.set('/mended', 200);
  const again = await ask('POST', failed._links['svc:resend']?.href ?? '', { headers: { 'Idempotency-Key': 'again' } });
  assert.equal(again.status, 202, again.text);
  assert.notEqual(again.location, selfOf(failed));
  assert.deepEqual([again.location, again.body['status']], [selfOf(again.body), 'pending']);
  const repeated = await ask('POST', failed._links['svc:resend']?.href ?? '', {
    headers: { 'Idempotency-Key': 'again' },
  });
  assert.deepEqual([repeated.status, repeated.location], [202, again.location]);

  const arrived = await find(at, is('successful'));
  assert.equal(selfOf(arrived), again.location);
  assert.deepEqual([arrived['attempts'], arrived['reason'], arrived['waits_for']], [1, null, null]);
  const got = gotAt('/mended').map(({ headers }) => headers);
  assert.equal(got.length, 2);
  for (const name of ['webhook-id', 'service-webhook-attempt', 'service-webhook-refeed'])
    assert.equal(got[0]?.[name], got[1]?.[name], name);
  // A delivery that has arrived is sent once more if a person asks for it.
  assert.equal((await ask('POST', `${selfOf(arrived)}/resend`)).status, 202);
  await until(
    async () => gotAt('/mended').length,
    (count) => count === 3,
  );
});

test('a role that may see the key is shown the request as it was sent, byte for byte, with its attempts oldest first', async () => {
  answers.set('/shown', 410);
  const at = await open('/shown', { query: 'fields=id,first_name', headers: { 'X-Team': 'Ops' } });
  await publish(2);
  await find(at, is('failed'));
  // The 410 disables the webhook a moment after the delivery has failed.
  await until(
    () => ask('GET', at),
    ({ body }) => body['is_active'] === '0',
  );
  answers.set('/shown', 200);
  await switchTo(at, '1');
  const before = await find(at, is('failed'));
  await ask('POST', `${selfOf(before)}/resend`);
  const delivery = await find(at, is('successful'));
  const request = requestOf(delivery);
  const [got] = gotAt('/shown').slice(-1);
  assert.ok(got !== undefined);
  assert.equal(request['as_sent'], true);
  assert.deepEqual(shownLines(request), linesOf(got));
  assert.equal(request['body'], got.body.toString());
  assert.deepEqual([request['method'], request['url']], ['POST', `${receiver.url}/shown`]);
  assert.equal(request['body_length'], got.body.length);
  const logs = delivery._embedded['svc:logs'] ?? [];
  assert.deepEqual(
    logs.map((log) => [log['attempt'], log['outcome'], log['reason'], log._links['svc:status']?.href]),
    [[1, 'delivered', null, selfOf(delivery)]],
  );
  assert.equal((await ask('GET', request._links['svc:payload']?.href ?? '')).status, 200);

  const others = requestOf((await ask('GET', selfOf(delivery), { token: platformToken })).body);
  const hidden = shownLines(request).filter((line) => !shownLines(others).includes(line));
  assert.deepEqual(
    hidden.map((line) => line.split(':', 1)[0]),
    ['x-team', 'service-webhook-signature', 'webhook-signature'],
  );
  assert.ok(shownLines(others).includes('x-team: ***'), String(others['headers']));
  assert.match(String(others['note']), / Signatures are hidden: .* Values of the additional headers .* are hidden/);
  assert.equal(others['as_sent'], false);

  await ask('PATCH', at, { body: { query: 'fields=id' } });
  assert.deepEqual(requestOf((await ask('GET', selfOf(delivery))).body), request);
  await asOfBefore(at);
  const changed = requestOf((await ask('GET', selfOf(delivery))).body);
  assert.deepEqual(
    [changed['as_sent'], changed['body']],
    [false, '{"id":2}'.replace('{', String(changed['body']).slice(0, String(changed['body']).indexOf('"id"')))],
  );
  assert.match(String(changed['note']), /changed since the attempt .* as it would be sent now/);
});

test('a token of the platform is never shown, and an encrypted body is shown decrypted', async () => {
  const site = await open('/site', {
    format: 'partner_sitebuilder',
    encryption_key: 'token-of-the-platform',
    url: 'https://127.0.0.1:1/site',
  });
  const wire = await open('/wire', { url: 'http://10.0.0.9.example.invalid/wire' });
  await publish(3);
  const token = requestOf(await find(site, attempted(1)));
  const inside = requestOf(await find(wire, () => true));
  assert.match(String(token['headers']), /^authorization: Bearer •+$/m);
  assert.ok(!JSON.stringify(token).includes('token-of-the-platform'));
  assert.match(String(inside['headers']), /^content-type: application\/jose$/m);
  assert.doesNotMatch(String(inside['headers']), /signature/i);
  assert.deepEqual([inside['as_sent'], String(inside['body']).includes('Zoë')], [false, true]);
  assert.match(String(inside['note']), /sent encrypted/);
});

test('a long body is cut between two characters, and its whole length is shown', async () => {
  const at = await open('/long');
  await publish(4, { first_name: `a${'é'.repeat(12_000)}` });
  const request = requestOf(await find(at, is('successful')));
  const [got] = gotAt('/long');
  const shown = String(request['body']);
  assert.equal(request['body_length'], got?.body.length);
  assert.ok(got?.body.toString().startsWith(shown) && Buffer.byteLength(shown) > 16_000 && !shown.includes('\uFFFD'));
  assert.match(String(request['note']), /first 16384 bytes/);
});

test('an erased body is marked as erased and cannot be sent again; a test delivery is repeated by another test', async () => {
  const at = await open('/erased');
  await publish(5);
  const arrived = await find(at, is('successful'));
  await ask('POST', `${at}/test`);
  const trial = await find(at, ({ event }) => String(event).startsWith('customer/test'));
  const tested = await ask('POST', `${selfOf(trial)}/resend`);
  assert.deepEqual([tested.status, faultOf(tested)?.['code'], trial._links['svc:resend']], [409, 'is_test', undefined]);
  assert.equal((await ask('DELETE', `${store}/customers/5`, { token: platformToken })).status, 204);
  const erased = (await ask('GET', selfOf(arrived))).body;
  const { body, headers, note } = requestOf(erased) as { body?: unknown; headers?: unknown; note?: unknown };
  assert.deepEqual([body, headers], [null, null]);
  assert.match(String(note), /erased/);
  assert.equal(erased._links['svc:resend'], undefined);
  const gone = await ask('POST', `${selfOf(arrived)}/resend`);
  assert.deepEqual([gone.status, faultOf(gone)?.['code']], [409, 'event_gone']);
});

test('a delivery that was never sent says so, and of twelve concurrent resends one succeeds', async () => {
  answers.set('/paused', 503);
  const at = await open('/paused');
  await publish(6);
  await find(at, attempted(1));
  await publish(7);
  const waiting = await find(at, attempted(0));
  assert.match(String(waiting['waits_for']), /Retry-After/);
  assert.deepEqual([waiting['reason'], requestOf(waiting)['note']], [null, 'This is the request that will be sent.']);
  await switchTo(at, '0');
  await switchTo(at, '1');
  // A failing delivery stays pending, so no second resend is allowed because the first has arrived.
  answers.set('/paused', 500);
  const dead = await find(at, (delivery) => is('failed')(delivery) && attempted(0)(delivery));
  assert.match(String(dead['reason']), /^It was never sent: /);
  const resend = () => ask('POST', `${selfOf(dead)}/resend`);
  // The lock stops inserts while the first three are admitted: all of them have read the pending row before one commits.
  const holder = await app.sql.reserve();
  await holder`begin`;
  await holder`lock table delivery in share mode`;
  const three = [resend(), resend(), resend()];
  // A worker that records an attempt meanwhile waits, too.
  const locked = () => app.sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%webhook%'
      and query not like '%shard_lease%'`;
  try {
    await until(locked, (rows) => rows.length === three.length);
  } finally {
    await holder`commit`;
    holder.release();
  }
  const all = await Promise.all([...three, ...Array.from({ length: 9 }, resend)]);
  assert.equal(all.filter(({ status }) => status === 202).length, 1);
  assert.equal(all.filter((one) => faultOf(one)?.['code'] === 'already_pending').length, 11);
  await find(at, (delivery) => is('pending')(delivery) && attempted(1)(delivery));
  assert.equal(gotAt('/paused').length, 2);
});

test('the page of a delivery stays the same while the delivery does not change', async () => {
  answers.set('/waits', 500);
  const at = await open('/waits');
  await publish(9);
  await find(at, attempted(1));
  await asOfBefore(at);
  await ask('PATCH', at, { body: { query: 'fields=id' } });
  const pending = await find(at, attempted(1));
  const look = async (tag?: string) => {
    const headers: Record<string, string> = tag === undefined ? {} : { 'If-None-Match': tag };
    const response = await app.api('GET', selfOf(pending), { headers });
    const text = await response.text();
    const request = response.status === 200 ? requestOf(JSON.parse(text) as Representation) : undefined;
    return { status: response.status, tag: response.headers.get('etag') ?? '', request };
  };
  const first = await look();
  const due = Date.parse(String(pending['date_next'])) / 1_000;
  assert.ok(shownLines(first.request ?? pending).includes(`webhook-timestamp: ${due}`));
  app.clock.advance(2_000);
  assert.equal((await look(first.tag)).status, 304);
  await switchTo(at, '0');
  await find(at, ({ date_ended }) => date_ended !== null);
  const ended = await look();
  app.clock.advance(2_000);
  assert.equal((await look(ended.tag)).status, 304);
});

test('a delivery of another store, an unknown one and one of another webhook are not found', async () => {
  const [at, beside] = [await open('/mine'), await open('/beside')];
  await publish(8);
  const mine = await find(at, is('successful'));
  const foreign = (await openSecondStore(app)).token;
  const number = selfOf(mine).split('/').at(-1);
  for (const [path, token] of [
    [selfOf(mine), foreign],
    [`${at}/statuses/256`, app.token],
    [`${at}/statuses/x`, app.token],
    [`${beside}/statuses/${number}`, app.token],
  ] as const) {
    assert.equal((await ask('GET', path, { token })).status, 404, path);
    assert.equal((await ask('POST', `${path}/resend`, { token })).status, 404, path);
  }
});

test('a delivery that is read while its attempt is recorded has as many attempts as it says', async () => {
  const webhook = await open('/held');
  const inconsistent: string[] = [];
  for (let round = 0; round < 15; round += 1) {
    held = Promise.withResolvers<void>();
    await publish(9_000 + round);
    const { body } = await ask('GET', `${webhook}/statuses?limit=1`);
    const [newest] = body._embedded['svc:statuses'] ?? [];
    assert.ok(newest !== undefined);
    const path = new URL(selfOf(newest)).pathname;
    await until(
      async () => gotAt('/held').length,
      (count) => count > round,
    );
    const readUntilEnded = async (): Promise<void> => {
      for (let status: unknown = 'pending'; status === 'pending';) {
        const { body: delivery } = await ask('GET', path);
        const recorded = delivery._embedded['svc:logs']?.length ?? 0;
        if (recorded !== delivery['attempts']) inconsistent.push(`${recorded} of ${String(delivery['attempts'])}`);
        status = delivery['status'];
      }
    };
    const readers = Array.from({ length: 12 }, readUntilEnded);
    await ask('GET', path);
    held.resolve();
    await Promise.all(readers);
  }
  assert.deepEqual(inconsistent, []);
});
