/**
 * DNS rebinding: names that resolve differently the next time, or to several addresses. Whatever the name server answers,
 * nothing is sent to an unchecked address. Public is what this guard allows (127.0.0.1), private are all others.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:https';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { createAuthority } from '../../../../test/setup/authority.ts';
import { openFixture, portOf, rawServer } from '../../../../test/setup/exchanges.ts';
import { resolverOf, startNameServer, type Said } from '../../../../test/setup/name-server.ts';
import { startReceiver } from '../../../../test/setup/receiver.ts';
import { createGuard } from './outbound-guard.ts';
import type { ResolverSettings } from './resolver.ts';

const PUBLIC = '127.0.0.1';
/** Listens as well, so that a request sent there is seen. */
const PRIVATE = '127.0.0.2';
const NAME = 'shop.example.com';
const allowed = [PUBLIC];

const receiver = await startReceiver();
const { port } = new URL(receiver.url);
const reached: string[] = [];
await rawServer((socket) => void reached.push(String(socket.remoteAddress)), Number(port), PRIVATE);

/** A clock so fast that no answer stays cached. */
function forgetful() {
  let nowMs = 0;
  return { now: () => new Date(), monotonicMs: () => (nowMs += 60_000) };
}

async function outcomeAt(server: { address: string }, own: Partial<ResolverSettings> = {}) {
  const guard = createGuard({ allowed }, resolverOf(server, own, { clock: forgetful() }));
  return openFixture({}, { guard }).send(`http://${NAME}:${port}`).outcome;
}

async function assertBlocked(server: { address: string }, address: string): Promise<void> {
  const outcome = await outcomeAt(server);
  assert.ok(outcome.kind === 'blocked', outcome.kind);
  assert.deepEqual([outcome.address, outcome.reply], [address, null]);
  assert.ok(outcome.why.includes(NAME) && !outcome.why.includes(address), outcome.why);
}

test('the connection goes to the checked address, although the name resolves elsewhere a moment later', async () => {
  const server = await startNameServer();
  let asked = 0;
  server.say((_name, type) => {
    if (type === 'AAAA') return {};
    asked += 1;
    return { addresses: [asked === 1 ? PUBLIC : PRIVATE], ttlSeconds: 0 };
  });
  assert.equal((await outcomeAt(server)).kind, 'delivered');
  await assertBlocked(server, PRIVATE);
  assert.deepEqual([asked, reached], [2, []]);
});

const mixed: readonly (readonly [what: string, said: Said, address: string])[] = [
  ['a public A and a private one', { addresses: [PUBLIC, PRIVATE] }, PRIVATE],
  ['a private A and a public one', { addresses: [PRIVATE, PUBLIC] }, PRIVATE],
  ['a public A and a private AAAA', { addresses: [PUBLIC, 'fd00::1'] }, 'fd00::1'],
  ['a public A and the metadata of a cloud', { addresses: [PUBLIC, 'fd00:ec2::254'] }, 'fd00:ec2::254'],
  ['a public A and the same behind a NAT64', { addresses: [PUBLIC, '64:ff9b::7f00:1'] }, '64:ff9b::7f00:1'],
  ['a public A and a local NAT64', { addresses: [PUBLIC, '64:ff9b:1::a00:1'] }, '64:ff9b:1::a00:1'],
  ['a public A and a mapped one', { addresses: [PUBLIC, '::ffff:7f00:2'] }, '::ffff:127.0.0.2'],
  ['a public A and 6to4', { addresses: [PUBLIC, '2002:7f00:2::1'] }, '2002:7f00:2::1'],
  ['a public A and ISATAP', { addresses: [PUBLIC, '2600:1::5efe:a00:1'] }, '2600:1::5efe:a00:1'],
  [
    'aliases that end at a private address',
    { aliases: ['a.example.net', 'b.example.org'], addresses: [PRIVATE] },
    PRIVATE,
  ],
];

for (const [what, said, address] of mixed) {
  test(`${what}: refused`, async () => {
    const server = await startNameServer();
    server.say(() => said);
    const before = receiver.got.length;
    await assertBlocked(server, address);
    assert.deepEqual([receiver.got.length, reached], [before, []]);
  });
}

test('aliases that end at a public address are followed', async () => {
  const server = await startNameServer();
  server.say(() => ({ aliases: ['a.example.net', 'b.example.org'], addresses: [PUBLIC] }));
  assert.equal((await outcomeAt(server)).kind, 'delivered');
});

test('a truncated answer is repeated over TCP, and each of its addresses is checked', async () => {
  const server = await startNameServer({ overTcp: true });
  const many = Array.from({ length: 100 }, () => PUBLIC);
  server.say(() => ({ addresses: many, isTruncated: true }));
  assert.equal((await outcomeAt(server)).kind, 'delivered');
  server.say(() => ({ addresses: [...many, PRIVATE], isTruncated: true }));
  await assertBlocked(server, PRIVATE);
  assert.ok(server.asked.includes(`TCP A ${NAME}`));
});

const internal = (why: string) => ({ kind: 'internal', why, reply: null });
const charged: readonly (readonly [what: string, said: Said, outcome: object])[] = [
  ['a name that does not exist', { code: 'NXDOMAIN' }, { kind: 'unreachable', why: 'dns', reply: null }],
  ['a name without addresses', {}, { kind: 'unreachable', why: 'dns', reply: null }],
  ['aliases without an address', { aliases: ['a.example.net'] }, { kind: 'unreachable', why: 'dns', reply: null }],
  ['a server that fails', { code: 'SERVFAIL' }, internal('ESERVFAIL')],
  ['a server that refuses', { code: 'REFUSED' }, internal('EREFUSED')],
  ['a server that is silent', null, internal('ETIMEOUT')],
  ['a server that is too slow', { addresses: [PUBLIC], afterMs: 5_000 }, internal('ETIMEOUT')],
  [
    'a truncated answer, from a server without TCP',
    { addresses: [PUBLIC], isTruncated: true },
    internal('ECONNREFUSED'),
  ],
];

for (const [what, said, outcome] of charged) {
  test(`${what} is charged to ${'why' in outcome && outcome.why === 'dns' ? 'the endpoint' : 'no endpoint'}`, async () => {
    const server = await startNameServer();
    server.say(() => said);
    const isLate = said === null || said.afterMs !== undefined;
    assert.deepEqual(await outcomeAt(server, isLate ? { lookupTimeoutMs: 1_000 } : {}), outcome);
  });
}

test('if a private address comes late, or in one family only, nothing is sent to either', async () => {
  const server = await startNameServer();
  const { promise: isAsked, resolve: asked } = Promise.withResolvers<void>();
  server.say((_name, type) => {
    if (type === 'A') return { addresses: [PRIVATE], after: isAsked.then(() => immediate()) };
    asked();
    return { code: 'SERVFAIL' };
  });
  await assertBlocked(server, PRIVATE);
});

test('a connection to a checked address uses the name: in TLS, in the certificate, in the Host', async (context) => {
  const authority = createAuthority();
  context.after(authority.remove);
  setDefaultCACertificates([...getCACertificates('default'), authority.cert]);
  const seen: unknown[] = [];
  const endpoint = createServer(authority.sign(`DNS:${NAME}`), (request, response) => {
    const { servername, remoteAddress } = request.socket as TLSSocket & { servername: string };
    seen.push([servername, request.headers.host, remoteAddress]);
    response.writeHead(204).end();
  }).listen(0, PUBLIC);
  await once(endpoint, 'listening');
  after(() => {
    endpoint.closeAllConnections();
    endpoint.close();
  });
  const server = await startNameServer();
  server.say(() => ({ addresses: [PUBLIC] }));
  const { send } = openFixture({}, { guard: createGuard({ allowed }, resolverOf(server)) });
  const at = portOf(endpoint);
  assert.equal((await send(`https://${NAME}:${at}`).outcome).kind, 'delivered');
  assert.deepEqual(seen, [[NAME, `${NAME}:${at}`, PUBLIC]]);
  assert.deepEqual(await send(`https://other.example.com:${at}`).outcome, {
    kind: 'unreachable',
    why: 'tls',
    reply: null,
  });
});
