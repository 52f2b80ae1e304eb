import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolverOf, startNameServer } from '../../../../test/setup/name-server.ts';
import { createGuard } from './guard.ts';

test('a setting that is no network is refused at the start', () => {
  assert.throws(() => createGuard({ allowed: ['127.0.0.0/8', 'localhost'] }, resolverOf()));
});

test('a URL whose name does not resolve is accepted, and so is an allowed one', async () => {
  const server = await startNameServer();
  server.say((name) => ({ code: name === 'dead.example.com' ? 'SERVFAIL' : 'NXDOMAIN' }));
  for (const host of ['no-such-host.invalid', 'dead.example.com'])
    assert.equal(await createGuard({}, resolverOf(server)).checkUrl(`http://${host}/`), null);
  const { checkUrl } = createGuard({ allowed: ['127.0.0.0/8', '::1'] }, resolverOf());
  assert.equal(await checkUrl('http://localhost/'), null);
});

test('one forbidden address among several blocks the host', async () => {
  const server = await startNameServer();
  const { checkUrl } = createGuard({}, resolverOf(server));
  const at = (name: string, ...addresses: string[]) => {
    server.say(() => ({ addresses }));
    return checkUrl(`http://${name}/`);
  };
  assert.equal(await at('good.example.com', '1.1.1.1', '2606:4700::1111'), null);
  assert.match((await at('bad.example.com', '1.1.1.1', '2606:4700::1111', '10.0.0.1')) ?? '', /may not reach/);
});

test('the error for a name of the operator’s network does not reveal its address', async () => {
  const server = await startNameServer();
  server.say(() => ({ addresses: ['10.1.2.3'] }));
  const { checkUrl } = createGuard({}, resolverOf(server));
  assert.match((await checkUrl('http://intranet.example.com/')) ?? '', /^\D*intranet\.example\.com\D*not public$/);
  assert.match((await checkUrl('http://10.0.0.1/')) ?? '', / 10\.0\.0\.1$/);
  assert.match((await checkUrl('http://[::1]/')) ?? '', / ::1$/);
});
