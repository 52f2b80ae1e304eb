/** The findings of `halcyon doctor` about faulty settings, a faulty machine and a new database, and the settings that `serve` reports. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { readConfig, type Config } from '#config/config.ts';
import { adviceOnPort } from '#cli/ports.ts';
import { DISK, FOLDER, NAMES, NETWORK_CHECKS, NODE } from '../../src/cli/doctor/machine-checks.ts';
import { checkSettings } from '../../src/cli/doctor/settings-check.ts';
import { printed, runCommand, startCommand } from '../setup/command.ts';
import { emptyDatabase, urlOf } from '../setup/database.ts';
import { assertFinding, findingsIn, findingsOf, saidOf } from '../setup/findings.ts';
import { startForwardProxy } from '../setup/forward-proxy.ts';
import { freePort } from '../setup/free-port.ts';
import { startMailServer } from '../setup/mail-server.ts';
import { startNameServer } from '../setup/name-server.ts';
import { settingsOf } from '../setup/several-databases.ts';

test('all invalid settings are reported at once, with names that are no settings', async () => {
  const { config, findings } = await checkSettings(
    { PORT: 'http', LOG_LEVEL: 'loud', DATABASE_URI: 'x', HALCYON_FOO: '1' },
    '/',
  );
  assert.equal(config, undefined);
  assertFinding(findings, /^fail PORT is "http"/);
  assertFinding(findings, /^fail LOG_LEVEL is "loud"/);
  assertFinding(findings, /^warn DATABASE_URI is no setting/);
  assert.match(findings.find(({ message }) => message.startsWith('DATABASE_URI'))?.advice ?? '', /DATABASE_URL/);
  assertFinding(findings, /^warn HALCYON_FOO is no setting/);
  assertFinding((await checkSettings({ DATABASE_URL: 'postgres:///x' }, '/')).findings, /^fail Set HALCYON_SECRET_KEY/);
  assert.deepEqual((await checkSettings({ HOME: '/', HOSTS: 'x', PGPORT: '1' }, '/')).findings.map(saidOf), [
    'ok none is set',
  ]);
  assertFinding(await findingsOf([NODE], { nodeVersion: '22.3.0' }), /^fail Node 22\.3\.0 is too old/);
});

test('a full disk, and name servers that do not answer', async () => {
  const disk = (dataDir: string, freeBytes: { warn: number; fail: number }) =>
    findingsOf([DISK], { dataDir, freeBytes });
  assertFinding(await disk(tmpdir(), { warn: 0, fail: 0 }), /^ok .* GiB free/);
  assertFinding(await disk(tmpdir(), { warn: Infinity, fail: 0 }), /^warn .* GiB free/);
  assertFinding(await disk(tmpdir(), { warn: Infinity, fail: Infinity }), /^fail .* GiB free/);
  assertFinding(await disk('/nowhere/at/all', { warn: 0, fail: 0 }), /^ok .* free in \/$/);
  assertFinding(
    await findingsOf([DISK], { dataDir: `/${'x'.repeat(300)}` }),
    /^fail .* cannot be read \(ENAMETOOLONG\)/,
  );
  assert.deepEqual(await findingsOf([FOLDER], { dataDir: `${tmpdir()}/to/be/made` }), []);
  assertFinding(await findingsOf([FOLDER], { dataDir: '/dev/null/x' }), /^fail \/dev\/null\/x .*ENOTDIR/);
  const server = await startNameServer();
  server.say(() => ({ code: 'NXDOMAIN' }));
  assertFinding(await findingsOf([NAMES], { nameServers: [server.address] }), /^ok name servers answer/);
  server.say(() => ({ code: 'REFUSED' }));
  assertFinding(await findingsOf([NAMES], { nameServers: [server.address] }), /^fail .*EREFUSED/);
});

test('ports in use, addresses that refuse connections, an unreachable proxy and mail server', async (t) => {
  const port = await freePort();
  const config = (env: Record<string, string>) => readConfig({ PORT: String(port), ...env }, '/');
  const network = (name: string, settings: Config) => findingsOf(NETWORK_CHECKS, settings, name);
  assertFinding(await network('ports', config({})), /^ok PORT: 127\.0\.0\.1:\d+ is free/);
  const holder = createServer((socket) => socket.resume().end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi'));
  holder.listen(port, '127.0.0.1');
  await once(holder, 'listening');
  t.after(() => holder.close());
  assertFinding(await network('ports', config({})), /^fail PORT: something else .*127/);
  assertFinding(await network('ports', config({ HOST: '192.0.2.1' })), /^fail PORT: cannot listen .*192\.0\.2\.1/);
  assert.match(adviceOnPort('EADDRNOTAVAIL', 'PORT'), /address of this machine/);
  assert.match(adviceOnPort('EACCES', 'METRICS_PORT'), /^Set METRICS_PORT to one from 1024 on/);
  assertFinding(
    await network('addresses', config({ BASE_URL: 'https://halcyon.invalid' })),
    /^warn BASE_URL .* no Halcyon answers/,
  );
  assertFinding(await network('addresses', config({})), /^warn BASE_URL .* 200\)/);
  const proxied = (at: number) => config({ OUTBOUND_PROXY: `http://127.0.0.1:${at}` });
  assertFinding(await network('proxy', config({})), /^ok none is set/);
  assertFinding(
    await network('proxy', proxied((await startForwardProxy()).port)),
    /^ok the proxy at 127\.0\.0\.1:\d+ accepts connections/,
  );
  assertFinding(await network('proxy', proxied(await freePort())), /^fail .*OUTBOUND_PROXY.*ECONNREFUSED/);
  const mail = await startMailServer();
  t.after(() => mail.stop());
  assertFinding(
    await network('mail', config({ SMTP_URL: mail.url, MAIL_FROM: 'a@example.com' })),
    /^ok the server answers/,
  );
  const away = { SMTP_URL: `smtp://127.0.0.1:${await freePort()}`, MAIL_FROM: 'a@example.com' };
  assertFinding(await network('mail', config(away)), /^fail .*\((?:ECONNREFUSED|ESOCKET)\)/);
});

/** The settings of a new database, and a free port. */
async function place(t: { after: (end: () => Promise<void>) => void }): Promise<Record<string, string>> {
  const { address } = await emptyDatabase(t);
  return { ...settingsOf({ url: urlOf(address) }), PORT: String(await freePort()), LOG_LEVEL: 'warn' };
}

test('doctor does not fail on a new database that was migrated and never served', async (t) => {
  const env = await place(t);
  const migrated = await runCommand(['migrate'], env);
  assert.equal(migrated.code, 0, migrated.err);
  const findings = findingsIn(await runCommand(['doctor', '--json'], env));
  assertFinding(findings, /^ok all \d+ are applied/);
  assertFinding(findings, /^ok none yet: the first start creates them/);
  // The server of the tests may lose everything, and this machine may have no name servers.
  const failed = findings.filter(({ state, check }) => state === 'fail' && check !== 'database' && check !== 'names');
  assert.deepEqual(failed, []);
});

test('serve names every invalid setting in one line, and every unknown name', async () => {
  const env = { LOG_LEVEL: 'loud', METRICS_PORT: 'x', DATABASE_URI: 'y', HALCYON_FOO: '1', DELIVERY_SLOTS: 'z' };
  const { code, err } = await runCommand(['serve'], env);
  assert.equal(code, 1);
  const lines = err.trim().split('\n');
  assert.equal(lines.length, 3, err);
  assert.match(err, /^halcyon: DATABASE_URI is no setting.*DATABASE_URL/m);
  assert.match(err, /^halcyon: HALCYON_FOO is no setting/m);
  const last = lines.at(-1) ?? '';
  for (const name of ['LOG_LEVEL', 'METRICS_PORT', 'DELIVERY_SLOTS']) assert.match(last, new RegExp(`${name} is "`));
});

test('an unknown name among the settings gets a warning, and does not stop the server from starting', async (t) => {
  const server = startCommand(['serve'], { ...(await place(t)), HALCYON_FOO: '1' });
  await printed(server, /(is ready)\./);
  assert.match(server.said(), /^halcyon: HALCYON_FOO is no setting/m);
  server.kill('SIGTERM');
  assert.equal((await server.ended).code, 0);
});
