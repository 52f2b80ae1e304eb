import assert from 'node:assert/strict';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { emptyDatabase } from '../../test/setup/database.ts';
import { DatabaseError, openPool, serversOf } from './pool.ts';
import { isUnavailable } from './unavailable.ts';

const { address } = await emptyDatabase();
assert.ok(address.kind === 'socket');
const { directory, user, password, database } = address;

const open = (t: { after: (end: () => Promise<void>) => void }, url: string) => {
  const sql = openPool({ kind: 'url', url }, { connections: 1, applicationName: 'test' });
  t.after(() => sql.end({ timeout: 0 }));
  return sql;
};
/** The address of the database by its socket, with more in the query. */
const urlOf = (query: string, hosts = directory) =>
  `postgres://${user}:${encodeURIComponent(password)}@named.below/${database}?host=${encodeURIComponent(hosts)}${query}`;

const SERVERS: Record<string, { host: string; port: number }[]> = {
  'postgres://u:p@db.example/halcyon': [{ host: 'db.example', port: 5432 }],
  'postgresql://u:p@db.example:6000/halcyon?sslmode=require': [{ host: 'db.example', port: 6000 }],
  'postgres://u:p@[2001:db8::1]:6000/halcyon': [{ host: '2001:db8::1', port: 6000 }],
  'postgres://one:5433,two:6000/halcyon': [
    { host: 'one', port: 5433 },
    { host: 'two', port: 6000 },
  ],
  'postgres:///halcyon?host=one,two': [
    { host: 'one', port: 5432 },
    { host: 'two', port: 5432 },
  ],
  'postgres://%2Fvar%2Frun%2Fpostgresql/halcyon': [],
};
for (const [url, servers] of Object.entries(SERVERS)) {
  test(`the servers of ${url}`, async (t) => assert.deepEqual(serversOf(open(t, url)), servers));
}

test('the hosts of an address are tried one after the other', async (t) => {
  const [row] = await open(t, urlOf('', `/nowhere,${directory}`))`select 1 as n`;
  assert.deepEqual(row, { n: 1 });
  await assert.rejects(async () => open(t, urlOf('', '/nowhere,/elsewhere'))`select 1`, { code: 'ENOENT' });
});

test('a server that only reads is no primary', async (t) => {
  const reading = '&options=-c%20default_transaction_read_only%3Don';
  const [row] = await open(t, urlOf(reading))`select current_setting('transaction_read_only') as reading`;
  assert.deepEqual(row, { reading: 'on' });
  await assert.rejects(async () => open(t, urlOf(`${reading}&target_session_attrs=primary`))`select 1`, isUnavailable);
  const [writing] = await open(t, urlOf('&target_session_attrs=read-write'))`select 1 as n`;
  assert.deepEqual(writing, { n: 1 });
});

test('other parameters of an address are settings of the session', async (t) => {
  const [row] = await open(t, urlOf('&application_name=mine&search_path=a,%20b&connect_timeout=3'))`
    select current_setting('application_name') as name, current_setting('search_path') as path,
      current_setting('TimeZone') as zone`;
  assert.deepEqual(row, { name: 'mine', path: 'a, b', zone: 'UTC' });
});

test('what is not possible is refused', () => {
  for (const query of ['&sslmode=maybe', '&target_session_attrs=standby', '&keepalives=1']) {
    const refused = () => openPool({ kind: 'url', url: urlOf(query) }, { connections: 1, applicationName: 'test' });
    assert.throws(refused, DatabaseError);
  }
});

/** A server that refuses TLS and then closes, and what it is asked for. */
async function startPlain(t: { after: (end: () => void) => void }) {
  const asked: string[] = [];
  const server: Server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      const isTls = data.length === 8;
      asked.push(isTls ? 'TLS' : 'plain');
      if (isTls) socket.end('N');
      else socket.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => void server.close());
  return { asked, url: `postgres://u:p@127.0.0.1:${(server.address() as AddressInfo).port}/d` };
}

const ASKED = { disable: ['plain'], prefer: ['TLS', 'plain'], require: ['TLS'], 'verify-full': ['TLS'] };
for (const [mode, expected] of Object.entries(ASKED)) {
  test(`with sslmode=${mode} a server is asked for ${expected.join(', then ')}`, async (t) => {
    const { asked, url } = await startPlain(t);
    await assert.rejects(async () => open(t, `${url}?sslmode=${mode}`)`select 1`, isUnavailable);
    assert.deepEqual(asked, expected);
  });
}
