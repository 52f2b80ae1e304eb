/** The findings of `halcyon doctor` about faulty settings and a faulty machine. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { readConfig } from '#config/config.ts';
import { adviceOnPort } from '../../src/cli/port.ts';
import { checkDisk, checkFolder, checkNames, checkNode } from '../../src/cli/doctor/checks/machine.ts';
import { checkAddresses, checkMail, checkPorts, checkProxy } from '../../src/cli/doctor/checks/network.ts';
import { checkSettings } from '../../src/cli/doctor/checks/settings.ts';
import { assertFinding, saidOf } from '../setup/findings.ts';
import { startForwardProxy } from '../setup/forward-proxy.ts';
import { freePort } from '../setup/free-port.ts';
import { startMailServer } from '../setup/mail-server.ts';
import { startNameServer } from '../setup/name-server.ts';

test('all invalid settings are reported at once, with names that are no settings', () => {
  const { config, findings } = checkSettings(
    { PORT: 'http', LOG_LEVEL: 'loud', DATABASE_URI: 'x', HALCYON_FOO: '1' },
    '/',
  );
  assert.equal(config, undefined);
  assertFinding(findings, /^fail PORT is "http"/);
  assertFinding(findings, /^fail LOG_LEVEL is "loud"/);
  assertFinding(findings, /^warn DATABASE_URI is no setting/);
  assert.match(findings.find(({ message }) => message.startsWith('DATABASE_URI'))?.advice ?? '', /DATABASE_URL/);
  assertFinding(findings, /^warn HALCYON_FOO is no setting/);
  assertFinding(checkSettings({ DATABASE_URL: 'postgres:///x' }, '/').findings, /^fail Set HALCYON_SECRET_KEY/);
  assert.deepEqual(checkSettings({ HOME: '/', HOSTS: 'x', PGPORT: '1' }, '/').findings.map(saidOf), ['ok none is set']);
  assertFinding(checkNode('22.3.0'), /^fail Node 22\.3\.0 is too old/);
});

test('a full disk, and name servers that do not answer', async () => {
  assertFinding(await checkDisk(tmpdir(), { warn: 0, fail: 0 }), /^ok .* GiB free/);
  assertFinding(await checkDisk(tmpdir(), { warn: Infinity, fail: 0 }), /^warn .* GiB free/);
  assertFinding(await checkDisk(tmpdir(), { warn: Infinity, fail: Infinity }), /^fail .* GiB free/);
  assertFinding(await checkDisk('/nowhere/at/all', { warn: 0, fail: 0 }), /^ok .* free in \/$/);
  assertFinding(await checkDisk(`/${'x'.repeat(300)}`), /^fail .* cannot be read \(ENAMETOOLONG\)/);
  assert.deepEqual(await checkFolder(`${tmpdir()}/to/be/made`), []);
  assertFinding(await checkFolder('/dev/null/x'), /^fail \/dev\/null\/x .*ENOTDIR/);
  const server = await startNameServer();
  server.say(() => ({ code: 'NXDOMAIN' }));
  assertFinding(await checkNames([server.address]), /^ok name servers answer/);
  server.say(() => ({ code: 'REFUSED' }));
  assertFinding(await checkNames([server.address]), /^fail .*EREFUSED/);
});

test('ports in use, addresses that refuse connections, an unreachable proxy and mail server', async (t) => {
  const port = await freePort();
  const config = (env: Record<string, string>) => readConfig({ PORT: String(port), ...env }, '/');
  assertFinding(await checkPorts(config({})), /^ok PORT: 127\.0\.0\.1:\d+ is free/);
  const holder = createServer((socket) => socket.resume().end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi'));
  holder.listen(port, '127.0.0.1');
  await once(holder, 'listening');
  t.after(() => holder.close());
  assertFinding(await checkPorts(config({})), /^fail PORT: something else .*127/);
  assertFinding(await checkPorts(config({ HOST: '192.0.2.1' })), /^fail PORT: cannot listen .*192\.0\.2\.1/);
  assert.match(adviceOnPort('EADDRNOTAVAIL', 'PORT'), /address of this machine/);
  assert.match(adviceOnPort('EACCES', 'METRICS_PORT'), /^Set METRICS_PORT to one from 1024 on/);
  assertFinding(
    await checkAddresses(config({ BASE_URL: 'https://halcyon.invalid' })),
    /^warn BASE_URL .* no Halcyon answers/,
  );
  assertFinding(await checkAddresses(config({})), /^warn BASE_URL .* 200\)/);
  const proxied = (at: number) => config({ OUTBOUND_PROXY: `http://127.0.0.1:${at}` });
  assertFinding(await checkProxy(config({})), /^ok none is set/);
  assertFinding(
    await checkProxy(proxied((await startForwardProxy()).port)),
    /^ok the proxy at 127\.0\.0\.1:\d+ accepts connections/,
  );
  assertFinding(await checkProxy(proxied(await freePort())), /^fail .*OUTBOUND_PROXY.*ECONNREFUSED/);
  const mail = await startMailServer();
  t.after(() => mail.stop());
  assertFinding(await checkMail(config({ SMTP_URL: mail.url, MAIL_FROM: 'a@example.com' })), /^ok the server answers/);
  const away = { SMTP_URL: `smtp://127.0.0.1:${await freePort()}`, MAIL_FROM: 'a@example.com' };
  assertFinding(await checkMail(config(away)), /^fail .*\((?:ECONNREFUSED|ESOCKET)\)/);
});
