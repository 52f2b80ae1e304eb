/** Endpoints with several addresses, some of which do not work. */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer, isIPv6, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { after, test, type TestContext } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { systemClock } from '#core/clock.ts';
import { startDeafServer, type DeafServer } from '../../../../test/setup/deaf-server.ts';
import { OK, openFixture, portOf } from '../../../../test/setup/exchanges.ts';
import { resolverOf, startNameServer } from '../../../../test/setup/name-server.ts';
import { PATIENCE_MS } from '../../../../test/setup/until.ts';
import { createDialer, type Opening } from './dial.ts';
import { BlockedAddress, createGuard } from './outbound-guard.ts';

const NEXT_ATTEMPT_MS = 250;
const NAME = 'shop.example.com';
const allowed = ['127.0.0.0/8', '::1', '224.0.0.0/8', 'ff02::/16'];

/** `no route`: connect(2) to a multicast address fails at once. */
const KINDS = ['works', 'refused', 'no route', 'silent'] as const;
type Kind = (typeof KINDS)[number];
const CODES: Partial<Record<Kind, string>> = { refused: 'ECONNREFUSED', 'no route': 'ENETUNREACH' };

/** Returns the IPv4 address of a kind for the nth place in a list. */
const fourOf = (kind: Kind, n: number): string =>
  kind === 'no route' ? `224.0.0.${n + 1}` : `127.0.${KINDS.indexOf(kind) + 1}.${n + 1}`;
const PLACES = [0, 1, 2];
const SLOW = PLACES.map((n) => `127.0.9.${n + 1}`);

async function listen(host: string, port: number): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => {}).on('data', () => socket.write(OK)));
  server.listen(port, host);
  await once(server, 'listening');
  after(() => void server.close());
  return portOf(server);
}

/** Starts the servers of all kinds on one port. */
async function startServers(six: Kind, slowBacklog?: number): Promise<{ port: number; slow?: DeafServer }> {
  const [first = '', ...others] = PLACES.map((n) => fourOf('works', n));
  const port = await listen(six === 'works' ? '::1' : first, 0);
  for (const host of six === 'works' ? [first, ...others] : others) await listen(host, port);
  const silent = PLACES.map((n) => fourOf('silent', n));
  const deaf = await startDeafServer(six === 'silent' ? [...silent, '::1'] : silent, { port });
  after(deaf.close);
  if (slowBacklog === undefined) return { port };
  const slow = await startDeafServer(SLOW, { port, backlog: slowBacklog });
  after(slow.close);
  return { port, slow };
}

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
const { port, slow } = await startServers('refused', 16);
/** The port for each kind of the only IPv6 address. */
const ports: ReadonlyMap<Kind, number> = new Map([
  ['refused', port],
  ['no route', port],
  ...(hasIpv6
    ? ([
        ['works', (await startServers('works')).port],
        ['silent', (await startServers('silent')).port],
      ] as const)
    : []),
]);

type Attempt = { address: string; socket: Socket };

/** Records the attempts to connect to any of the ports. */
function recordAttempts(t: TestContext): Attempt[] {
  const attempts: Attempt[] = [];
  const onSocket = (message: unknown): void => {
    const { socket } = message as { socket: Socket };
    socket.once('connectionAttempt', (address: string) => attempts.push({ address, socket }));
  };
  subscribe('net.client.socket', onSocket);
  t.after(() => unsubscribe('net.client.socket', onSocket));
  return attempts;
}

/** Waits without timers, which are mocked. */
async function turnsUntil(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error('waited in vain');
    await immediate();
  }
}

type Result = { error: Error | null; socket: Socket | null };
type Dialing = { results: Result[]; steps: string[]; opening: Opening };

/** Opens a connection to the host with these addresses. */
function dialAll(addresses: readonly string[], at: number, connectTimeoutMs = 5_000): Dialing {
  const resolve = async () => addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  const guard = createGuard({ allowed }, resolve);
  const { dial } = createDialer({ guard, clock: systemClock }, { connectTimeoutMs, tlsSessions: 1 });
  const results: Result[] = [];
  const steps: string[] = [];
  const opening = dial({
    origin: `http://${NAME}:${at}`,
    hostname: NAME,
    port: at,
    isTls: false,
    onStep: (step) => void steps.push(step),
    done: (error, socket) => void results.push({ error, socket }),
  });
  return { results, steps, opening };
}

type Case = { list: readonly { kind: Kind; address: string }[]; port: number };

const LISTS: Kind[][] = [
  ...KINDS.map((first) => [first]),
  ...KINDS.flatMap((first) => KINDS.map((second) => [first, second])),
  ...KINDS.flatMap((first) => KINDS.flatMap((second) => KINDS.map((third) => [first, second, third]))),
];

/** Returns the cases of a list of kinds: without an IPv6 address, and with one in each place. */
function casesOf(kinds: readonly Kind[]): Case[] {
  const four = kinds.map((kind, n) => ({ kind, address: fourOf(kind, n) }));
  const six = kinds.flatMap((kind, n) => {
    const at = ports.get(kind);
    const address = kind === 'no route' ? 'ff02::1' : '::1';
    return at === undefined ? [] : [{ list: four.with(n, { kind, address }), port: at }];
  });
  return [{ list: four, port }, ...six];
}

/** The order of the attempts: only a list that ends with its IPv6 address, or has it after two others, changes. */
function inOrder<T extends { address: string }>([first, second, third]: readonly T[]): T[] {
  const swaps = first && second && third && isIPv6(third.address);
  return (swaps ? [first, third, second] : [first, second, third]).filter((one) => one !== undefined);
}

async function runCase(t: TestContext, attempts: Attempt[], { list, port: at }: Case): Promise<void> {
  const about = list.map(({ kind, address }) => `${address} ${kind}`).join(', ');
  const order = inOrder(list);
  const works = order.findIndex(({ kind }) => kind === 'works');
  const tried = works === -1 ? order : order.slice(0, works + 1);
  attempts.length = 0;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { results, steps } = dialAll(
    list.map(({ address }) => address),
    at,
  );
  let passedMs = 0;
  for (const [n, { kind }] of tried.entries()) {
    await turnsUntil(() => attempts.length > n);
    if (kind !== 'silent' || n === order.length - 1) continue;
    t.mock.timers.tick(NEXT_ATTEMPT_MS - 1);
    await immediate();
    assert.equal(attempts.length, n + 1, about);
    t.mock.timers.tick(1);
    passedMs += NEXT_ATTEMPT_MS;
  }
  if (works === -1 && tried.some(({ kind }) => kind === 'silent')) {
    t.mock.timers.tick(5_000 - 1 - passedMs);
    await immediate();
    assert.equal(results.length, 0, about);
    t.mock.timers.tick(1);
  }
  await turnsUntil(() => results.length > 0);
  t.mock.timers.tick(60_000);
  await immediate();
  t.mock.timers.reset();
  const [{ error, socket } = assert.fail()] = results;
  assert.equal(results.length, 1, about);
  assert.deepEqual(steps, ['dns', 'connect']);
  assert.deepEqual(
    attempts.map(({ address }) => address),
    tried.map(({ address }) => address),
    about,
  );
  assert.equal(socket?.remoteAddress, order[works]?.address, about);
  assert.ok(
    attempts.every((attempt) => attempt.socket === socket || attempt.socket.destroyed),
    about,
  );
  const codes = error instanceof AggregateError ? error.errors.map(({ code }: { code: string }) => code) : undefined;
  if (works !== -1) assert.equal(error, null);
  else if (tried.some(({ kind }) => kind === 'silent'))
    assert.equal((error as NodeJS.ErrnoException).code, 'UND_ERR_CONNECT_TIMEOUT');
  else
    assert.deepEqual(
      codes,
      tried.map(({ kind }) => CODES[kind]),
      about,
    );
  socket?.destroy();
}

test('the first address that accepts gets the connection, whatever the others do, and no other socket is left', async (t) => {
  const attempts = recordAttempts(t);
  for (const one of LISTS.flatMap(casesOf)) await runCase(t, attempts, one);
});

test('an attempt goes on while the next ones begin', async (t) => {
  const attempts = recordAttempts(t);
  const [slow1 = '', slow2 = ''] = SLOW;
  const silent = fourOf('silent', 0);
  const lists = [
    [slow1, silent],
    [silent, slow1],
    [slow1, fourOf('refused', 0)],
    [fourOf('refused', 0), slow1],
    [slow1, 'ff02::1'],
    [slow1, slow2],
    [slow1, silent, slow2],
  ];
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const dialings = lists.map((list) => dialAll(list, port, 3_600_000));
  while (attempts.length < lists.flat().length) {
    t.mock.timers.tick(NEXT_ATTEMPT_MS);
    await immediate();
  }
  const waiting = attempts.filter(({ address }) => address === silent || SLOW.includes(address));
  assert.equal(waiting.filter(({ socket }) => socket.connecting).length, waiting.length);
  slow?.accept();
  await turnsUntil(() => dialings.every(({ results }) => results.length > 0));
  const sockets = new Set(dialings.map(({ results }) => results[0]?.socket));
  for (const socket of sockets) assert.ok(SLOW.includes(socket?.remoteAddress ?? ''));
  for (const { socket } of attempts) assert.notEqual(socket.destroyed, sockets.has(socket));
  for (const socket of sockets) socket?.destroy();
});

test('families alternate, beginning with that of the first address', async (t) => {
  const attempts = recordAttempts(t);
  const [a, b, c] = ['224.0.0.1', '224.0.0.2', '224.0.0.3'];
  const [x, y, z] = ['ff02::1', 'ff02::2', 'ff02::3'];
  for (const [list, order] of [
    [
      [a, b, c, x, y],
      [a, x, b, y, c],
    ],
    [
      [x, a, b, c],
      [x, a, b, c],
    ],
    [
      [x, y, z, a],
      [x, a, y, z],
    ],
    [
      [a, x, y, b],
      [a, x, b, y],
    ],
  ] as const) {
    attempts.length = 0;
    const { results } = dialAll(list, port);
    await turnsUntil(() => results.length > 0);
    assert.deepEqual(
      attempts.map(({ address }) => address),
      order,
    );
  }
});

test('a connection that is no longer wanted ends all attempts, and begins no other', async (t) => {
  const attempts = recordAttempts(t);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { opening, results } = dialAll(
    PLACES.map((n) => fourOf('silent', n)),
    port,
  );
  await turnsUntil(() => attempts.length === 1);
  t.mock.timers.tick(NEXT_ATTEMPT_MS);
  await turnsUntil(() => attempts.length === 2);
  opening.destroy();
  t.mock.timers.tick(60_000);
  await immediate();
  assert.deepEqual([attempts.map(({ socket }) => socket.destroyed), results], [[true, true], []]);
});

test('no address is tried if one is forbidden, in any place', async (t) => {
  const attempts = recordAttempts(t);
  for (const place of PLACES) {
    const { results } = dialAll(
      PLACES.map((n) => (n === place ? '10.0.0.1' : fourOf('works', n))),
      port,
    );
    await turnsUntil(() => results.length > 0);
    assert.ok(results[0]?.error instanceof BlockedAddress);
  }
  assert.equal(attempts.length, 0);
});

test('a delivery to a name whose first address is silent arrives, and the connection is reused', async (t) => {
  const attempts = recordAttempts(t);
  const nameServer = await startNameServer();
  nameServer.say(() => ({ addresses: [fourOf('silent', 0), fourOf('works', 0)] }));
  const { send, connections } = openFixture({}, { guard: createGuard({ allowed }, resolverOf(nameServer)) });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { outcome } = send(`http://${NAME}:${port}`);
  await turnsUntil(() => attempts.length === 1);
  t.mock.timers.tick(NEXT_ATTEMPT_MS);
  assert.equal((await outcome).kind, 'delivered');
  assert.equal((await send(`http://${NAME}:${port}`).outcome).kind, 'delivered');
  const { opened, reused } = connections.sockets;
  assert.deepEqual([attempts.length, opened, reused], [2, 1, 1]);
});
