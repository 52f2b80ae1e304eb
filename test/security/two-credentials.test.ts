/** A caller that authenticates in two ways at once is rejected (RFC 6749 §2.3, RFC 6750 §2). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { origin, client, platform, alpha, token, newCode, redeem } = server;

const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' };
const { body: granted } = await redeem(await newCode());
const access = String(granted['access_token']);
const bearer = { Authorization: `Bearer ${access}` };
const basic = { Authorization: `Basic ${btoa(`${client.client_id}:${client.client_secret}`)}` };
const webhooks = `/stores/${alpha}/webhooks`;

/** Returns the status, and the code of the only error or the error of the protocol. */
async function refusal(method: string, path: string, headers: Record<string, string>, form?: Record<string, string>) {
  const body = form === undefined ? null : new URLSearchParams(form).toString();
  const all = { 'SERVICE-API-VERSION': '1', ...headers, ...(form === undefined ? {} : FORM) };
  const response = await fetch(origin + path, { method, headers: all, body });
  const answer = (await response.json()) as { error?: string; _embedded?: { 'svc:errors': { code: string }[] } };
  return [response.status, answer.error ?? answer._embedded?.['svc:errors'].map(({ code }) => code).join()];
}

const INVALID = [400, 'invalid_request'];

test('an access token in the header and in the body is invalid_request', async () => {
  const webhook = { name: 'Hook', format: 'json', encryption_key: 'a key of mine' };
  assert.deepEqual(await refusal('POST', webhooks, bearer, { ...webhook, access_token: access }), INVALID);
  const { status } = await fetch(origin + webhooks, {
    method: 'POST',
    headers: { 'SERVICE-API-VERSION': '1', ...bearer, ...FORM },
    body: new URLSearchParams(webhook).toString(),
  });
  assert.equal(status, 201, 'without the second it is accepted');
});

test('an access token in the query is invalid_request, with one in the header and without', async () => {
  for (const headers of [bearer, {}])
    assert.deepEqual(await refusal('GET', `${webhooks}?access_token=${access}`, headers), INVALID);
});

test('an access token in the body alone does not authenticate', async () => {
  assert.deepEqual(await refusal('POST', webhooks, {}, { access_token: access }), [401, 'invalid_token']);
});

const TWO_METHODS: Readonly<Record<string, [headers: Record<string, string>, form: Record<string, string>]>> = {
  'two secrets': [basic, client],
  'a secret in the header and an assertion': [basic, { client_assertion: 'a.b.c' }],
  'a secret and an assertion in the body': [{}, { ...client, client_assertion: 'a.b.c' }],
};
for (const path of ['/token', '/revoke', '/introspect', '/device_authorization']) {
  for (const [what, [headers, fields]] of Object.entries(TWO_METHODS)) {
    test(`${what} of one client are rejected at ${path}`, async () => {
      const form = { ...fields, token: access, grant_type: 'refresh_token', refresh_token: 'x', scope: 'store_read' };
      assert.deepEqual(await refusal('POST', path, headers, form), INVALID);
    });
  }
}

test('a token of the platform beside a secret is rejected at /introspect', async () => {
  const { body } = await token({ grant_type: 'client_credentials', ...platform });
  const headers = { Authorization: `Bearer ${String(body['access_token'])}` };
  for (const form of [client, { client_assertion: 'a.b.c' }])
    assert.deepEqual(await refusal('POST', '/introspect', headers, { token: access, ...form }), INVALID);
});
