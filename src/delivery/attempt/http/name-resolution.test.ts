/** Endpoints by name, with a name server that is slow, silent or inconsistent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { passingClock, standingClock } from '../../../../test/setup/clock.ts';
import { openFixture } from '../../../../test/setup/exchanges.ts';
import { resolverOf, startNameServer, type NameServer } from '../../../../test/setup/name-server.ts';
import { startReceiver } from '../../../../test/setup/receiver.ts';
import { until } from '../../../../test/setup/until.ts';
import { createGuard } from './outbound-guard.ts';

const here = { addresses: ['127.0.0.1'] };
const receiver = await startReceiver();
const { port } = new URL(receiver.url);
const at = (name: string) => `http://${name}:${port}`;
const allowed = ['127.0.0.0/8'];

const fixtureOf = (server: NameServer, resolve = resolverOf(server)) =>
  openFixture({ idleSockets: 1 }, { guard: createGuard({ allowed }, resolve) });

test('a name that does not exist is a fault of the endpoint', async () => {
  const server = await startNameServer();
  server.say(() => ({ code: 'NXDOMAIN' }));
  const outcome = await fixtureOf(server).send(at('gone.example.com')).outcome;
  assert.deepEqual(outcome, { kind: 'unreachable', why: 'dns', reply: null });
});

test('while the name server is silent, recently resolved endpoints get their deliveries and no endpoint is charged', async () => {
  const server = await startNameServer();
  server.say(() => here);
  const clock = standingClock();
  const { send } = fixtureOf(server, resolverOf(server, { lookupTimeoutMs: 200, failedLookupKeptMs: 0 }, { clock }));
  receiver.answer((_got, response) => response.writeHead(204, { connection: 'close' }).end());
  // If the machine pauses for this long, the first look-up is late as well.
  await until(
    async () => (await send(at('known.example.com')).outcome).kind,
    (kind) => kind === 'delivered',
  );
  server.say(() => null);
  assert.equal((await send(at('known.example.com')).outcome).kind, 'delivered');
  const unknown = await send(at('unknown.example.com')).outcome;
  assert.deepEqual(unknown, { kind: 'internal', why: 'ETIMEOUT', reply: null });
});

test('names without an answer from the name server delay no other', async (t) => {
  const server = await startNameServer();
  const { promise: areAsked, resolve: asked } = Promise.withResolvers<void>();
  server.say((name) => {
    if (server.asked.length === 18) asked();
    return name.startsWith('silent') ? null : here;
  });
  const { send } = fixtureOf(server, resolverOf(server, { lookupTimeoutMs: 2_000 }));
  // The limit passes only by `tick`: after a pause of the machine the answer for the other name would be late as well.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const silent = Array.from({ length: 8 }, (_, n) => send(at(`silent${n}.example.com`)).outcome);
  assert.equal((await send(at('healthy.example.com')).outcome).kind, 'delivered');
  await areAsked;
  t.mock.timers.tick(2_000);
  const kinds = (await Promise.all(silent)).map(({ kind }) => kind);
  assert.deepEqual(new Set(kinds), new Set(['internal']));
});

test('hundreds of new names are queried at once, and all are delivered to', async () => {
  // Their packets fit into the default buffer of a socket.
  const names = Array.from({ length: 250 }, (_, n) => `e${n}.example.com`);
  const server = await startNameServer();
  const { promise: areAsked, resolve: asked } = Promise.withResolvers<void>();
  server.say(() => {
    if (server.asked.length === 2 * names.length) asked();
    return { ...here, after: areAsked };
  });
  const { send } = openFixture(
    { idleSockets: 1, connectTimeoutMs: 50_000 },
    { guard: createGuard({ allowed }, resolverOf(server, { lookupTimeoutMs: 50_000 })) },
  );
  receiver.answer((_got, response) => response.writeHead(204, { connection: 'close' }).end());
  const patient = { exchangeTimeoutMs: 50_000 };
  const kinds = await Promise.all(names.map(async (name) => (await send(at(name), patient).outcome).kind));
  assert.deepEqual([...new Set(kinds)], ['delivered']);
});

test('a name that resolves first to an allowed and then to a forbidden address is blocked', async () => {
  const server = await startNameServer();
  const clock = passingClock();
  const { send } = fixtureOf(server, resolverOf(server, {}, { clock }));
  receiver.answer((_got, response) => response.writeHead(204, { connection: 'close' }).end());
  server.say(() => ({ addresses: ['127.0.0.1'], ttlSeconds: 0 }));
  assert.equal((await send(at('rebound.example.com')).outcome).kind, 'delivered');
  server.say(() => ({ addresses: ['10.0.0.1'], ttlSeconds: 0 }));
  clock.advance(1_000);
  const outcome = await send(at('rebound.example.com')).outcome;
  assert.ok(outcome.kind === 'blocked');
  assert.deepEqual([outcome.address, outcome.reply], ['10.0.0.1', null]);
  assert.match(outcome.why, /rebound\.example\.com.*not public$/);
});

test('a cached answer is checked each time it is used', async () => {
  const server = await startNameServer();
  server.say(() => here);
  const resolve = resolverOf(server);
  assert.equal((await fixtureOf(server, resolve).send(at('shared.example.com')).outcome).kind, 'delivered');
  const strict = openFixture({}, { guard: createGuard({}, resolve) });
  assert.equal((await strict.send(at('shared.example.com')).outcome).kind, 'blocked');
  assert.equal(server.asked.length, 2);
});
