/** Endpoints by their names: what a name server that is slow, silent or of two minds does to them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { passingClock } from '../../../../test/setup/clock.ts';
import { openFixture } from '../../../../test/setup/exchanges.ts';
import { resolverOf, startNameServer, type NameServer } from '../../../../test/setup/name-server.ts';
import { startReceiver } from '../../../../test/setup/receiver.ts';
import { until } from '../../../../test/setup/until.ts';
import { createGuard } from './guard.ts';

const here = { addresses: ['127.0.0.1'] };
const receiver = await startReceiver();
const { port } = new URL(receiver.url);
const at = (name: string) => `http://${name}:${port}`;
const allowed = ['127.0.0.0/8'];

const fixtureOf = (server: NameServer, resolve = resolverOf(server)) =>
  openFixture({ idleSockets: 1 }, { guard: createGuard({ allowed }, resolve) });

test('a name that does not exist is the fault of the endpoint', async () => {
  const server = await startNameServer();
  server.say(() => ({ code: 'NXDOMAIN' }));
  const outcome = await fixtureOf(server).send(at('gone.example.com')).outcome;
  assert.deepEqual(outcome, { kind: 'unreachable', why: 'dns', reply: null });
});

test('while the name server is silent, who was asked for lately is delivered to, and nobody is charged', async () => {
  const server = await startNameServer();
  server.say(() => here);
  const { send } = fixtureOf(server, resolverOf(server, { lookupTimeoutMs: 200, failedLookupKeptMs: 0 }));
  receiver.answer((_got, response) => response.writeHead(204, { connection: 'close' }).end());
  // Where the machine pauses for so long, the first look-up is late as well.
  await until(
    async () => (await send(at('known.example.com')).outcome).kind,
    (kind) => kind === 'delivered',
  );
  server.say(() => null);
  assert.equal((await send(at('known.example.com')).outcome).kind, 'delivered');
  const unknown = await send(at('unknown.example.com')).outcome;
  assert.deepEqual(unknown, { kind: 'internal', why: 'ETIMEOUT', reply: null });
});

test('names that nobody answers for keep no other waiting', async () => {
  const server = await startNameServer();
  server.say((name) => (name.startsWith('silent') ? null : here));
  const { send } = fixtureOf(server, resolverOf(server, { lookupTimeoutMs: 2_000 }));
  const ended: string[] = [];
  const sendTo = async (name: string) => void ended.push((await send(at(name)).outcome).kind);
  const all = Array.from({ length: 8 }, (_, n) => sendTo(`silent${n}.example.com`));
  await Promise.all([...all, sendTo('healthy.example.com')]);
  assert.deepEqual(ended, ['delivered', ...all.map(() => 'internal')]);
});

test('a thousand new names at once, 400 ms each, are all delivered to', async () => {
  const server = await startNameServer();
  server.say(() => ({ ...here, afterMs: 400 }));
  // A machine may take its time for them. Not eight at a time, though: those would be late.
  const { send } = openFixture(
    { idleSockets: 1, connectTimeoutMs: 50_000 },
    { guard: createGuard({ allowed }, resolverOf(server, { lookupTimeoutMs: 50_000 })) },
  );
  receiver.answer((_got, response) => response.writeHead(204, { connection: 'close' }).end());
  const patient = { exchangeTimeoutMs: 50_000 };
  const kinds = await Promise.all(
    Array.from({ length: 1_000 }, async (_, n) => (await send(at(`e${n}.example.com`), patient).outcome).kind),
  );
  assert.deepEqual([...new Set(kinds)], ['delivered']);
});

test('a name that leads to an allowed address first and to a forbidden one then is refused', async () => {
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

test('an answer that is kept is judged each time it is used', async () => {
  const server = await startNameServer();
  server.say(() => here);
  const resolve = resolverOf(server);
  assert.equal((await fixtureOf(server, resolve).send(at('shared.example.com')).outcome).kind, 'delivered');
  const strict = openFixture({}, { guard: createGuard({}, resolve) });
  assert.equal((await strict.send(at('shared.example.com')).outcome).kind, 'blocked');
  assert.equal(server.asked.length, 2);
});
