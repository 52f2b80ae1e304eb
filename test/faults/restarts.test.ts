/** Servers restart one after the other behind a load balancer that asks them every 100 ms whether they are ready: no request fails. */
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember, createStore } from '#stores/store.ts';
import { createUser } from '#identity/accounts/users.ts';
import { amountOf } from '../setup/amount.ts';
import { cleanups } from '../setup/cleanups.ts';
import { databaseEnvOf, testDatabase } from '../setup/database.ts';
import { startProgram, type Program } from '../setup/fleet/program.ts';
import { freePort } from '../setup/free-port.ts';
import { passwords } from '../setup/passwords.ts';
import { until } from '../setup/until.ts';

const ROOT = new URL('../..', import.meta.url).pathname;
const RESTARTS = amountOf('restarts', { all: 20, part: 2 });
const POLL_MS = 100;
const CLIENTS = 8;

const ends = cleanups();
const { sql, address } = await testDatabase(ends);
const now = new Date();
const { id: userId } = await createUser(sql, passwords, { email: 'ada@example.com', password: 'a long password', now });
const { id: storeId } = await createStore(sql, {
  name: 'Store',
  domain: 'store.example.com',
  email: 'ada@example.com',
  timeZone: 'UTC',
  now,
});
await addMember(sql, { storeId, userId, role: 'owner', now });
const client = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now });

type Server = { port: number; agent: Agent; program: Program | undefined; isReady: boolean };

async function start(server: Server): Promise<void> {
  const env = {
    ...databaseEnvOf(address),
    HALCYON_SECRET_KEY: 'ab'.repeat(32),
    PORT: String(server.port),
    SHUTDOWN_DELAY_SECONDS: '5',
    LOG_LEVEL: 'error',
  };
  server.program = await startProgram({ root: ROOT, args: ['serve', '--no-deliver'], env, ready: 'is ready.' });
}

function send(
  { port, agent }: Server,
  path: string,
  options: { method?: string; headers?: Record<string, string> },
  body = '',
) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const sent = request({ port, path, agent, ...options }, (response) => {
    let text = '';
    response.setEncoding('utf8').on('data', (part: string) => (text += part));
    response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
  });
  sent.on('error', reject).end(body);
  return promise;
}

test(`${RESTARTS} restarts behind a load balancer fail no request`, async (t) => {
  const servers: Server[] = [];
  for (let n = 0; n < 2; n += 1) {
    const agent = new Agent({ keepAlive: true });
    servers.push({ port: await freePort(), agent, program: undefined, isReady: false });
  }
  ends.after(async () => {
    for (const { program, agent } of servers) {
      agent.destroy();
      await program?.end('SIGTERM');
    }
  });
  await Promise.all(servers.map(start));

  const over = new AbortController();
  const poll = async (server: Server): Promise<void> => {
    while (!over.signal.aborted) {
      server.isReady = await send(server, '/health/ready', {}).then(
        ({ status }) => status === 200,
        () => false,
      );
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  };
  const polls = servers.map(poll);
  await until(
    async () => servers,
    (all) => all.every(({ isReady }) => isReady),
  );

  const form = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...client }).toString();
  const [first] = servers;
  assert.ok(first !== undefined);
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
  const { access_token: token } = JSON.parse((await send(first, '/token', { method: 'POST', headers }, form)).text) as {
    access_token: string;
  };
  let [id, turn] = [0, 0];
  const failures: string[] = [];
  const load = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const ready = servers.filter(({ isReady }) => isReady);
      const server = ready[(turn += 1) % ready.length];
      assert.ok(server !== undefined, 'one of the servers is ready');
      const body = JSON.stringify({ event: 'transaction/created', resource: { id: (id += 1) } });
      const options = {
        method: 'POST',
        headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', 'SERVICE-API-VERSION': '1' },
      };
      await send(server, `/stores/${storeId}/events`, options, body).then(
        ({ status }) => status === 201 || failures.push(String(status)),
        (error: unknown) => failures.push(String(error)),
      );
    }
  };
  const loads = Array.from({ length: CLIENTS }, load);
  for (let n = 0; n < RESTARTS; n += 1) {
    const server = servers[n % servers.length];
    assert.ok(server !== undefined);
    assert.equal(await server.program?.end('SIGTERM'), 0);
    await start(server);
    await until(
      async () => server,
      ({ isReady }) => isReady,
    );
  }
  over.abort();
  await Promise.all([...loads, ...polls]);
  t.diagnostic(`${id} requests`);
  assert.deepEqual(failures, []);
  assert.ok(id > 100);
});
