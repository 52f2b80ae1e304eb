import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:https';
import { after, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { createAuthority } from '../../../../test/setup/authority.ts';
import { openFixture, portOf, rawServer } from '../../../../test/setup/exchanges.ts';
import { startForwardProxy } from '../../../../test/setup/forward-proxy.ts';
import { freePort } from '../../../../test/setup/free-port.ts';
import { resolverOf, startNameServer } from '../../../../test/setup/name-server.ts';
import { startReceiver } from '../../../../test/setup/receiver.ts';
import { until } from '../../../../test/setup/until.ts';
import { createGuard } from './outbound-guard.ts';

const NAME = 'shop.example.com';
/** Public, and never reached: the proxy connects to a receiver on loopback instead. */
const [FIRST, SECOND] = ['1.1.1.1', '1.0.0.1'];
const NO_CREDENTIALS = { authorization: null };

const authority = createAuthority();
after(authority.remove);
setDefaultCACertificates([...getCACertificates('default'), authority.cert]);

const receiver = await startReceiver();
const receiverPort = Number(new URL(receiver.url).port);

/** Exchanges through a proxy of their own; the name resolves to these addresses. */
async function start(
  addresses: readonly string[] = [FIRST],
  more: { authorization?: string; allowed?: string[] } = {},
) {
  const names = await startNameServer();
  names.say(() => ({ addresses }));
  const proxy = await startForwardProxy();
  proxy.say(() => ({ port: receiverPort }));
  const guard = createGuard({ allowed: more.allowed ?? [] }, resolverOf(names));
  const outboundProxy = { host: proxy.host, port: proxy.port, ...NO_CREDENTIALS, ...more };
  return { proxy, ...openFixture({ outboundProxy, connectTimeoutMs: 60_000 }, { guard }) };
}

test('a delivery reaches its endpoint through the proxy, which gets the checked address and no name', async () => {
  const { proxy, send } = await start();
  const before = receiver.got.length;
  assert.equal((await send(`http://${NAME}:8080`).outcome).kind, 'delivered');
  assert.deepEqual(proxy.asked, [`${FIRST}:8080`]);
  assert.equal(receiver.got.length, before + 1);
});

test('the next delivery uses the same tunnel', async () => {
  const { proxy, send, connections } = await start();
  for (let n = 0; n < 3; n += 1) assert.equal((await send(`http://${NAME}`).outcome).kind, 'delivered');
  assert.deepEqual([proxy.asked, connections.sockets.reused], [[`${FIRST}:80`], 2]);
});

test('TLS is that of the endpoint: its name is verified through the tunnel, and its sessions are resumed', async () => {
  const pairs = { right: authority.sign(`DNS:${NAME}`), wrong: authority.sign('DNS:other.example.com') };
  const ports = await Promise.all(
    Object.values(pairs).map(async (pair) => {
      const server = createServer(pair, (_request, response) => response.writeHead(204, { connection: 'close' }).end());
      server.on('tlsClientError', () => {});
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      after(() => server.close());
      return portOf(server);
    }),
  );
  const { proxy, send, connections } = await start();
  proxy.say(() => ({ port: ports[0] ?? 0 }));
  for (let n = 0; n < 2; n += 1) assert.equal((await send(`https://${NAME}`).outcome).kind, 'delivered');
  assert.deepEqual(connections.sockets.handshakes, { full: 1, resumed: 1 });
  proxy.say(() => ({ port: ports[1] ?? 0 }));
  assert.deepEqual(await send(`https://${NAME}`).outcome, { kind: 'unreachable', why: 'tls', reply: null });
  assert.deepEqual(proxy.asked, Array(3).fill(`${FIRST}:443`));
});

test('an IPv6 address and a literal address are passed on as such', async () => {
  const { proxy, send } = await start(['2606:4700::1111']);
  assert.equal((await send(`http://${NAME}:81`).outcome).kind, 'delivered');
  assert.equal((await send('http://[2606:4700::1001]:82').outcome).kind, 'delivered');
  assert.deepEqual(proxy.asked, ['[2606:4700::1111]:81', '[2606:4700::1001]:82']);
});

test('the credentials of the proxy are sent to the proxy only', async () => {
  const { proxy, send } = await start([FIRST], { authorization: 'Basic dTpw' });
  assert.equal((await send(`http://${NAME}`).outcome).kind, 'delivered');
  assert.deepEqual(proxy.credentials, ['Basic dTpw']);
  assert.equal(receiver.got.at(-1)?.headers['proxy-authorization'], undefined);
});

test('the guard still decides: nothing that is not public is asked of the proxy', async () => {
  const { proxy, send } = await start([FIRST, '10.0.0.1']);
  for (const url of [`http://${NAME}`, 'http://127.0.0.1', 'https://169.254.169.254'])
    assert.equal((await send(url).outcome).kind, 'blocked', url);
  assert.deepEqual(proxy.asked, []);
});

test('addresses that the operator allows in addition are reached directly', async () => {
  const { proxy, send } = await start(['127.0.0.1'], { allowed: ['127.0.0.0/8'] });
  for (const host of [NAME, '127.0.0.1'])
    assert.equal((await send(`http://${host}:${receiverPort}`).outcome).kind, 'delivered', host);
  assert.deepEqual(proxy.asked, []);
});

test('if the proxy cannot connect to an address, it is asked for the next one', async () => {
  const { proxy, send } = await start([FIRST, SECOND]);
  const [one, two] = [`${FIRST}:80`, `${SECOND}:80`];
  const firstAsked = () => (proxy.asked[0] === one ? [one, two] : [two, one]);
  proxy.say((target) => (target === proxy.asked[0] ? { status: 503 } : { port: receiverPort }));
  assert.equal((await send(`http://${NAME}`).outcome).kind, 'delivered');
  assert.deepEqual(proxy.asked, firstAsked());
});

const unreachable = { kind: 'unreachable', why: 'connect', reply: null };
const internal = (why: string) => ({ kind: 'internal', why, reply: null });

for (const status of [500, 502, 503, 504])
  test(`a proxy that cannot connect (${status}): the endpoint is unreachable`, async () => {
    const { proxy, send } = await start();
    proxy.say(() => ({ status }));
    assert.deepEqual(await send(`https://${NAME}`).outcome, unreachable);
  });

for (const status of [400, 403, 404, 407])
  test(`a proxy that refuses the address (${status}): blocked, and the message has no address`, async () => {
    const { proxy, send } = await start();
    proxy.say(() => ({ status }));
    const outcome = await send(`http://${NAME}`).outcome;
    assert.ok(outcome.kind === 'blocked', outcome.kind);
    assert.deepEqual([outcome.address, outcome.why.includes(NAME), outcome.why.includes(FIRST)], [FIRST, true, false]);
  });

test('a proxy that wants other credentials is no fault of the endpoint', async () => {
  const { proxy, send } = await start();
  for (const said of [{ status: 407, headers: { 'Proxy-Authenticate': 'Basic realm="proxy"' } }, { status: 401 }]) {
    proxy.say(() => said);
    assert.deepEqual(await send(`http://${NAME}`).outcome, internal('PROXY_CREDENTIALS'));
  }
});

test('a proxy that does not answer is no fault of the endpoint', async () => {
  const closing = await rawServer((socket) => void socket.once('data', () => socket.destroy()));
  const names = await startNameServer();
  names.say(() => ({ addresses: [FIRST] }));
  const guard = createGuard({}, resolverOf(names));
  for (const port of [await freePort(), closing.port]) {
    const outboundProxy = { host: '127.0.0.1', port, authorization: null };
    assert.deepEqual(
      await openFixture({ outboundProxy }, { guard }).send(`http://${NAME}`).outcome,
      internal('PROXY_UNREACHABLE'),
    );
  }
});

test('an endpoint that the proxy waits for: timed out while connecting', async (t) => {
  const requests = new EventEmitter();
  const silent = await rawServer((socket) => void socket.on('data', () => requests.emit('arrived')));
  const guard = createGuard({}, resolverOf());
  const outboundProxy = { host: '127.0.0.1', port: silent.port, authorization: null };
  const outcome = { kind: 'timed_out', phase: 'connect', reply: null };
  for (const timeouts of [{ connectTimeoutMs: 400 }, { exchangeTimeoutMs: 400 }]) {
    const { send } = openFixture({ outboundProxy, ...timeouts }, { guard });
    const arrived = once(requests, 'arrived');
    // The limits pass only by `tick`: a real one may pass before the proxy is reached.
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const exchange = send(`https://${FIRST}`, timeouts);
    await arrived;
    t.mock.timers.tick(400);
    t.mock.timers.reset();
    assert.deepEqual(await exchange.outcome, outcome);
  }
});

test('tunnels are closed with their connections, open and while they are opened', async () => {
  const { proxy, send, connections } = await start();
  assert.equal((await send(`http://${NAME}`).outcome).kind, 'delivered');
  assert.equal(proxy.tunnels(), 1);
  const silent = await rawServer(() => {});
  proxy.say(() => ({ port: silent.port }));
  const aborted = send(`https://${FIRST}`);
  await until(
    async () => silent.sockets.length,
    (count) => count === 1,
  );
  aborted.abort();
  await aborted.outcome.catch(() => {});
  await connections.stop();
  await until(
    async () => proxy.tunnels(),
    (count) => count === 0,
  );
});
