/** The trace context of a publish (W3C Trace Context), from its headers to those of each attempt. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { createLog } from '#core/log.ts';
import { startTestApp } from '../setup/app.ts';
import { listen } from '../setup/pull-listener.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

type Line = Readonly<Record<string, unknown>>;
const lines: Line[] = [];
const log = createLog('debug', { write: (line) => void lines.push(JSON.parse(line) as Line) });
const app = await startTestApp({ log });
const { sql, storeId, platformToken } = app;
const receiver = await startReceiver();
let status = 204;
receiver.answer((_got, response) => void response.writeHead(status).end());

async function ask(method: string, path: string, options: Parameters<typeof app.api>[2] = {}): Promise<{ id: number }> {
  const response = await app.api(method, path, options);
  const text = await response.text();
  assert.ok(response.ok, text);
  return JSON.parse(text || '{}') as { id: number };
}

const settings = { format: 'json', encryption_key: 'key', event_resource: 'customer' };
const addWebhook = async (given: object = {}): Promise<number> =>
  (
    await ask('POST', `/stores/${storeId}/webhooks`, {
      body: { name: 'Hook', url: receiver.url, ...settings, ...given },
    })
  ).id;
const webhook = await addWebhook();
const removeLater = (id: number) => async () => void (await app.api('DELETE', `/webhooks/${id}`));

let customers = 0;
const customer = () => ({ event: 'customer/created', resource: { id: (customers += 1) } });
const publish = (headers: Record<string, string>, body: object = customer()) =>
  ask('POST', `/stores/${storeId}/events`, { token: platformToken, body, headers });

/** Returns the requests about these customers. */
async function received(ids: readonly number[], count = ids.length): Promise<Got[]> {
  const isAbout = ({ body }: Got) => ids.includes((JSON.parse(body.toString()) as { id: number }).id);
  return until(
    async () => receiver.got.filter(isAbout),
    (found) => found.length >= count,
  );
}
const traceOf = ({ headers }: Got) => [headers['traceparent'], headers['tracestate']];

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = `00-${TRACE}-00f067aa0ba902b7-01`;
/** The trace and flags of `PARENT`; the group is the span id. */
const CHILD = new RegExp(`^00-${TRACE}-([0-9a-f]{16})-01$`);
const spanOf = (parent: string | string[] | undefined): string =>
  CHILD.exec(String(parent))?.[1] ?? assert.fail(String(parent));

test('a delivery has the trace id of its publish, a span id of its own, and the tracestate as it came', async () => {
  await publish({ traceparent: PARENT, tracestate: 'vendor=a b,other=1' });
  const [got] = await received([customers]);
  assert.notEqual(spanOf(got?.headers['traceparent']), '00f067aa0ba902b7');
  assert.equal(got?.headers['tracestate'], 'vendor=a b,other=1');
});

test('each event of a batch keeps its own context, also if requests share the commit', async () => {
  const parents = Array.from({ length: 20 }, (_, n) => PARENT.replace(TRACE, `${n + 10}`.repeat(16)));
  const first = customers + 1;
  await Promise.all(parents.map((traceparent, n) => publish(n % 2 === 0 ? { traceparent } : {})));
  await publish({ traceparent: PARENT }, [customer(), customer()]);
  const ids = Array.from({ length: 22 }, (_, n) => first + n);
  const got = await received(ids);
  const idOf = ({ body }: Got): number => (JSON.parse(body.toString()) as { id: number }).id;
  const traces = new Map(got.map((one) => [idOf(one), one.headers['traceparent']?.slice(3, 35)]));
  const expected = [...parents.map((one, n) => (n % 2 === 0 ? one.slice(3, 35) : undefined)), TRACE, TRACE];
  assert.deepEqual(
    ids.map((id) => traces.get(id)),
    expected,
  );
  assert.equal(new Set(got.map(({ headers }) => headers['traceparent'])).size, 13);
  // An owner in another process, and one that restarts, read what is stored.
  const stored = await sql<{ id: string; trace: string | null }[]>`
    select resource_id as id, substring(trace_context from 4 for 32) as trace from event where resource_type = 'customer'`;
  const storedBy = new Map(stored.map(({ id, trace }) => [Number(id), trace ?? undefined]));
  assert.deepEqual(
    ids.map((id) => storedBy.get(id)),
    expected,
  );
});

test('a delivery that another process commits has the trace of its publish', async () => {
  const other = await app.startSecond();
  const response = await fetch(`${other}/stores/${storeId}/events`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${platformToken}`,
      'SERVICE-API-VERSION': '1',
      'Content-Type': 'application/json',
      traceparent: PARENT,
    },
    body: JSON.stringify(customer()),
  });
  assert.equal(response.status, 201);
  assert.match(String((await received([customers]))[0]?.headers['traceparent']), CHILD);
});

/** Waits for deliveries of the webhook with this header, beside which those of earlier tests arrive. */
const gotBy = (team: string, count: number) =>
  until(
    async () => receiver.got.filter(({ headers }) => headers['x-team'] === team),
    ({ length }) => length === count,
  );

test('events that are derived from a version have its context', async (t) => {
  const id = await addWebhook({ event_resource: 'subscription_event', headers: { 'X-Team': 'derived' } });
  t.after(removeLater(id));
  const body = { event: 'subscription/created', resource: { id: 5, is_active: true, start_date: '2026-01-01' } };
  await publish({ traceparent: PARENT }, body);
  const [derived] = await gotBy('derived', 1);
  assert.match(String(derived?.headers['traceparent']), CHILD);
});

test('no header breaks a publish: what is invalid is ignored, and without a context nothing is sent', async () => {
  const hex = (length: number) => fc.stringMatching(new RegExp(`^[0-9a-f]{${length}}$`));
  const parents = fc.oneof(
    fc.stringMatching(/^[\x20-\x7e]{0,80}$/),
    fc.tuple(hex(2), hex(32), hex(16), hex(2)).map((parts) => parts.join('-')),
    fc.constantFrom(PARENT.toUpperCase(), `${PARENT}-x`, `${PARENT},${PARENT}`, PARENT.replace(/^00/, 'ff')),
    fc.constantFrom(PARENT.replace(TRACE, '0'.repeat(32)), PARENT.replace(/-00f0\w+-/, `-${'0'.repeat(16)}-`)),
  );
  const states = fc.oneof(fc.constant(''), fc.stringMatching(/^[\t\x20-\x7e\xa0-\xff]{0,600}$/));
  const cases = fc.sample(fc.tuple(parents, states), 40);
  const first = customers + 1;
  for (const [traceparent, tracestate] of cases) await publish({ traceparent, tracestate });
  const got = await received(cases.map((_, n) => first + n));
  for (const { headers } of got) {
    const [, trace, span] = /^00-(.{32})-(.{16})-0[01]$/.exec(String(headers['traceparent'] ?? '')) ?? [];
    assert.equal(trace !== undefined, headers['traceparent'] !== undefined);
    assert.ok(
      headers['tracestate'] === undefined || (trace !== undefined && String(headers['tracestate']).length <= 512),
    );
    assert.ok(!/^0*$/.test(span ?? '1'));
  }
  await publish({});
  assert.deepEqual(traceOf((await received([customers]))[0] ?? assert.fail()), [undefined, undefined]);
});

test('retries and a resend have the trace id of the event, each with its own span id, and attempts show what they sent', async () => {
  status = 500;
  await publish({ traceparent: PARENT, tracestate: 'a=1' });
  const about = [customers];
  await received(about);
  const [delivery] = await until(
    () =>
      sql<
        { id: number }[]
      >`select delivery_id as id from attempt_log where webhook_id = ${webhook} and response_code = 500`,
    ({ length }) => length > 0,
  );
  const at = `/webhooks/${webhook}/statuses/${delivery?.id}`;
  status = 204;
  await ask('POST', `${at}/retry`, { body: {} });
  const attempts = await received(about, 2);
  for (const [index, got] of attempts.entries()) {
    const shown = await until(
      async () => (await app.api('GET', `${at}?attempt=${index + 1}`)).text(),
      (text) => text.includes('traceparent'),
    );
    for (const name of ['traceparent', 'tracestate'])
      assert.ok(shown.includes(`${name}: ${String(got.headers[name])}`), shown);
  }
  await until(
    () => sql`select from delivery where id = ${delivery?.id ?? 0}`,
    ({ length }) => length === 0,
  );
  await ask('POST', `${at}/resend`, { body: {} });
  const all = await received(about, 3);
  assert.equal(new Set(all.map(({ headers }) => spanOf(headers['traceparent']))).size, 3);
});

test('after an erasure the context is gone', async () => {
  await publish({ traceparent: PARENT });
  await received([customers]);
  const kept = () => sql`select from event where resource_id = ${String(customers)} and trace_context is not null`;
  assert.equal((await kept()).length, 1);
  await ask('DELETE', `/stores/${storeId}/customers/${customers}`, { token: platformToken });
  await until(kept, ({ length }) => length === 0);
});

test('a header of the webhook with this name is sent only if the event has no context', async (t) => {
  const own = { traceparent: 'its own', TraceState: 'own=1', 'X-Team': 'a' };
  const id = await addWebhook({ event_resource: 'transaction', headers: own });
  t.after(removeLater(id));
  const transaction = (n: number) => ({ event: 'transaction/created', resource: { id: n } });
  await publish({}, transaction(1));
  await gotBy('a', 1);
  await publish({ traceparent: PARENT }, transaction(2));
  const [without, traced] = await gotBy('a', 2);
  assert.deepEqual(traceOf(without ?? assert.fail()), ['its own', 'own=1']);
  assert.match(String(traced?.headers['traceparent']), CHILD);
  assert.deepEqual([traced?.headers['tracestate'], traced?.headers['x-team']], [undefined, 'a']);
});

test('a pull client finds the context in the headers of the delivery', async (t) => {
  const id = await addWebhook({ url: '', is_held: true, event_resource: 'transaction' });
  t.after(removeLater(id));
  await publish({ traceparent: PARENT }, { event: 'transaction/created', resource: { id: 3 } });
  const listener = await listen(app, `/webhooks/${id}`);
  t.after(() => listener.hangUp());
  const [delivery] = await listener.deliveries(1);
  assert.match((delivery?.data['headers'] as Record<string, string> | undefined)?.['traceparent'] ?? '', CHILD);
});

test('the log lines of refused requests and of attempts have the trace id', async () => {
  lines.length = 0;
  await publish({ traceparent: PARENT });
  await publish({});
  await received([customers - 1, customers]);
  const refused = await app.api('POST', `/stores/${storeId}/events`, {
    token: platformToken,
    body: {},
    headers: { traceparent: PARENT },
  });
  assert.equal(refused.status, 400);
  const attempts = await until(
    async () => lines.filter(({ msg }) => msg === 'attempt'),
    ({ length }) => length === 2,
  );
  assert.deepEqual(new Set(attempts.map(({ trace_id: id }) => id)), new Set([TRACE, undefined]));
  assert.deepEqual(
    lines.filter((line) => line['status'] === 400).map(({ trace_id: id }) => id),
    [TRACE],
  );
});
