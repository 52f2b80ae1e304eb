/** A provider that does not respond as it should, within short time-outs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { createLog } from '#core/log.ts';
import { until } from '../../../test/setup/until.ts';
import { createProvider } from './external-sign-in.ts';

const PROOFS = { state: 's'.repeat(43), nonce: 'n'.repeat(43), verifier: 'v'.repeat(43) };
const NOW = new Date();

async function startProvider(t: TestContext, answer: RequestListener, timeoutSeconds = 60) {
  const server = createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const settings = {
    name: 'Slow',
    issuer,
    clientId: 'id',
    clientSecret: 'client-secret',
    domains: [],
    createsAccounts: false,
  };
  const lines: string[] = [];
  const log = createLog('warn', { write: (line) => void lines.push(line) });
  return { issuer, lines, provider: createProvider(settings, { log, timeoutSeconds }) };
}

const metadataOf = (issuer: string): object => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  jwks_uri: `${issuer}/jwks`,
});

test('a provider that never answers is unavailable after the time-out, and a later one is not', async (t) => {
  let isSilent = true;
  const answer: RequestListener = (_request, response) => {
    if (!isSilent) response.setHeader('content-type', 'application/json').end(JSON.stringify(metadataOf(issuer)));
  };
  const { provider, issuer, lines } = await startProvider(t, answer, 0.2);
  assert.equal(await provider.authorizationUrl('https://us.example/cb', PROOFS, NOW), undefined);
  assert.match(lines.join(''), /OpenID provider not available/);
  isSilent = false;
  // A busy machine may need longer than the time-out, which is then the reason again.
  const url = await until(() => provider.authorizationUrl('https://us.example/cb', PROOFS, NOW), Boolean);
  assert.match(url ?? '', /code_challenge=/);
});

test('a token endpoint that never answers, or fails, is unavailable', async (t) => {
  let fails = false;
  const answer: RequestListener = ({ url }, response) => {
    const isToken = url === '/token';
    if (!isToken) response.setHeader('content-type', 'application/json').end(JSON.stringify(metadataOf(issuer)));
    else if (fails) response.writeHead(500).end();
  };
  const { provider, issuer } = await startProvider(t, answer, 0.2);
  const back = new URL(`https://us.example/cb?code=c&state=${PROOFS.state}`);
  assert.deepEqual(await provider.exchange(back, PROOFS, NOW), { kind: 'unavailable' });
  fails = true;
  assert.deepEqual(await provider.exchange(back, PROOFS, NOW), { kind: 'unavailable' });
});

test('a response of more than 256 KiB is not read into memory', async (t) => {
  let padding = 0;
  const { provider, issuer, lines } = await startProvider(t, (_request, response) => {
    const text = JSON.stringify(metadataOf(issuer)) + ' '.repeat(padding);
    response.setHeader('content-type', 'application/json').end(text);
  });
  padding = 256 * 1_024;
  assert.equal(await provider.authorizationUrl('https://us.example/cb', PROOFS, NOW), undefined);
  assert.match(lines.join(''), /OAUTH_PARSE_ERROR/);
  padding = 128 * 1_024;
  assert.notEqual(await provider.authorizationUrl('https://us.example/cb', PROOFS, NOW), undefined);
});

test('the log of a refused response has neither the code nor the secret of the client', async (t) => {
  const { provider, issuer, lines } = await startProvider(t, ({ url }, response) => {
    const isToken = url === '/token';
    response.writeHead(isToken ? 400 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isToken ? { error: 'invalid_grant' } : metadataOf(issuer)));
  });
  const back = new URL(`https://us.example/cb?code=the-code&state=${PROOFS.state}`);
  assert.deepEqual(await provider.exchange(back, PROOFS, NOW), { kind: 'refused' });
  assert.match(lines.join(''), /refused/);
  assert.doesNotMatch(lines.join(''), /the-code|client-secret|v{43}|n{43}/);
});
