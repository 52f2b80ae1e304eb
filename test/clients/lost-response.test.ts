/** A client library that loses responses of /token, as on a connection that breaks, and goes on with the tokens that it has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as client from 'openid-client';
import { openScene } from './oauth-flow.ts';

const { server, onComputer } = await openScene();
const app = await onComputer();

const config = await client.discovery(new URL(app.issuer), app.clientId, undefined, client.None(), {
  algorithm: 'oauth2',
  execute: [client.allowInsecureRequests],
});
let breaks = false;
config[client.customFetch] = async (url, { headers, body }) => {
  assert.ok(body instanceof URLSearchParams);
  const response = await fetch(url, { method: 'POST', headers, body });
  if (breaks) throw new TypeError(`The connection broke after a ${response.status}`);
  return response;
};
const read = async (token: string): Promise<number> =>
  (await fetch(app.store, { headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` } })).status;

async function signIn() {
  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const expectedState = client.randomState();
  const address = client.buildAuthorizationUrl(config, {
    redirect_uri: app.redirectUri,
    scope: 'store_full_access',
    state: expectedState,
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
  });
  return client.authorizationCodeGrant(config, await app.visit(address), { pkceCodeVerifier, expectedState });
}

/** Refreshes with a connection that breaks after the server has sent its response. */
async function loseResponse(token: string): Promise<void> {
  breaks = true;
  await assert.rejects(client.refreshTokenGrant(config, token), /after a 200/);
  breaks = false;
}

test('a public client that loses responses refreshes again with its old token at any later time, and keeps its grant', async () => {
  const tokens = await signIn();
  let kept = tokens.refresh_token ?? '';
  for (let round = 0; round < 3; round += 1) {
    await loseResponse(kept);
    server.wait(12_000);
    await loseResponse(kept);
    server.wait(7_300_000);
    const renewed = await client.refreshTokenGrant(config, kept);
    assert.equal(await read(renewed.access_token), 200);
    kept = renewed.refresh_token ?? '';
  }
  // A thief uses the first token, which the client no longer uses.
  await assert.rejects(client.refreshTokenGrant(config, tokens.refresh_token ?? ''), { error: 'invalid_grant' });
  await assert.rejects(client.refreshTokenGrant(config, kept), { error: 'invalid_grant' });
});
