/** The spans of a publish and its deliveries, with a tracer that is registered by `--import`. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { cleanups } from '../setup/cleanups.ts';
import { startReceiver } from '../setup/receiver.ts';
import { startTraced } from '../setup/traced-program.ts';
import { until } from '../setup/until.ts';

type Printed = {
  span: string;
  kind: number;
  traceId: string;
  spanId: string;
  parent?: string;
  links: string[];
  attributes: Readonly<Record<string, unknown>>;
  status: number;
};

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const traceparent = `00-${TRACE}-00f067aa0ba902b7-01`;

const ends = cleanups();
const receiver = await startReceiver(ends);
let status = 204;
receiver.answer((_got, response) => void response.writeHead(status).end());
const register = join(import.meta.dirname, '../setup/printed-spans.ts');
const { program, sql, storeId, ask, publish } = await startTraced(ends, { receiver: receiver.url, register });

const spans = (): Printed[] =>
  program
    .said()
    .split('\n')
    .filter((line) => line.startsWith('{"span"'))
    .map((line) => JSON.parse(line) as Printed);
const within = async (traceId: string, count: number): Promise<Printed[]> =>
  until(
    async () => spans().filter((span) => span.traceId === traceId),
    ({ length }) => length >= count,
  );
let orders = 0;
const order = () => ({ event: 'transaction/created', resource: { id: (orders += 1) } });

const PUBLISH = 'POST /stores/:store_id/events';

test('the request is a child of its caller, and the batch and the attempt of the request; the receiver continues the attempt', async () => {
  assert.equal((await publish(order(), { traceparent, tracestate: 'a=1' })).status, 201);
  const found = await within(TRACE, 3);
  const [request, batch, attempt] = [PUBLISH, 'publish batch', 'POST'].map((name) =>
    found.find(({ span }) => span === name),
  );
  assert.deepEqual([request?.kind, request?.parent], [1, '00f067aa0ba902b7']);
  assert.deepEqual(request?.attributes, {
    'http.request.method': 'POST',
    'http.route': '/stores/:store_id/events',
    'http.response.status_code': 201,
  });
  assert.deepEqual(
    [batch?.kind, batch?.parent, attempt?.kind, attempt?.parent],
    [0, request?.spanId, 2, request?.spanId],
  );
  assert.deepEqual(batch?.attributes, { 'messaging.batch.message_count': 1 });
  const [got] = receiver.got;
  const { port } = new URL(receiver.url);
  const [webhook] = await sql<{ id: number }[]>`select id from webhook where store_id = ${storeId}`;
  assert.deepEqual(attempt?.attributes, {
    'http.request.method': 'POST',
    'url.scheme': 'http',
    'server.address': '127.0.0.1',
    'server.port': Number(port),
    'messaging.message.id': got?.headers['webhook-id'],
    'halcyon.attempt': 1,
    'halcyon.event': 'transaction/created',
    'halcyon.webhook.id': webhook?.id,
    'http.response.status_code': 204,
  });
  assert.deepEqual(
    [got?.headers['traceparent'], got?.headers['tracestate']],
    [`00-${TRACE}-${attempt?.spanId}-01`, 'a=1'],
  );
  assert.deepEqual(
    found.map((span) => span.status),
    [0, 0, 0],
  );
});

test('a request without a trace begins one, which its event and the log line of its attempt have', async () => {
  status = 500;
  const before = receiver.got.length;
  await publish(order(), { tracestate: 'a=1' });
  await receiver.until(before + 1);
  const got = receiver.got[before];
  const traceId = String(got?.headers['traceparent']).slice(3, 35);
  assert.equal(got?.headers['tracestate'], undefined);
  const found = await within(traceId, 3);
  const root = found.find(({ parent }) => parent === undefined);
  assert.equal(root?.span, PUBLISH);
  const failed = found.find(({ span }) => span === 'POST');
  assert.deepEqual([failed?.status, failed?.attributes['error.type']], [2, '500']);
  await until(
    async () => program.said(),
    (said) => said.includes(`"trace_id":"${traceId}"`),
  );
  const [delivery] = await sql<
    { id: number; webhook_id: number }[]
  >`select id, webhook_id from delivery where store_id = ${storeId}`;
  const shown = await (await ask('GET', `/webhooks/${delivery?.webhook_id}/statuses/${delivery?.id}`)).text();
  assert.match(shown, new RegExp(`traceparent: 00-${traceId}-\\*{16}-01`));
  assert.match(shown, /"as_sent":false/);
});

test('spans name no address, only routes, and the batch of several requests links to the others', async () => {
  const parents = Array.from({ length: 8 }, (_, n) => traceparent.replace(TRACE, `${n + 10}`.repeat(16)));
  await Promise.all(parents.map((parent) => publish(order(), { traceparent: parent })));
  await ask('GET', `/no/route/of/a/secret?token=secret`);
  await ask('GET', `/stores/${storeId}?token=secret`);
  const requests = await until(
    async () => spans().filter(({ kind }) => kind === 1),
    // In the order of their ends: the last request of this test follows the one without a route, which no other test sends.
    (all) => /,GET,.*GET \/stores/.test(all.map(({ span }) => span).join(',')),
  );
  assert.equal(JSON.stringify(spans()).includes('secret'), false);
  assert.ok(requests.some(({ span }) => span === 'GET'));
  const batches = await until(
    async () => spans().filter(({ span }) => span === 'publish batch'),
    (all) =>
      all.reduce((sum, { attributes }) => sum + Number(attributes['messaging.batch.message_count']), 0) === orders,
  );
  const named = new Set(batches.flatMap(({ parent, links }) => links.concat(parent ?? [])));
  const published = requests.filter(({ span }) => span === PUBLISH);
  assert.deepEqual(named, new Set(published.map(({ spanId }) => spanId)));
});

test('a stop flushes the spans', async () => {
  assert.equal(await program.end('SIGTERM'), 0);
  assert.match(program.said(), /^spans flushed$/m);
});
