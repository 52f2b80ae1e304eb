/** /authorize without a session redirects to the sign-in page, whatever is wrong with the request (RFC 9700 §4.11.2). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createBrowser, PASSWORD, REDIRECT, startAuthorizationServer } from './oauth-server.ts';
import { amountOf } from '../setup/amount.ts';

const server = await startAuthorizationServer();
const stranger = createBrowser(server.origin);
const details = { name: 'Unverified', trusted: false, isVerified: false, now: server.now() };
const unverified = await createClient(server.sql, { ...details, redirectUris: ['https://phishing.example/cb'] });

type Client = { client_id: string; redirect_uri: string };
const phishing: Client = { client_id: unverified.client_id, redirect_uri: 'https://phishing.example/cb' };
const verified: Client = { client_id: server.client.client_id, redirect_uri: REDIRECT };

/** Raw, so that broken percent sequences and repeated parameters get through. */
const rest = fc
  .array(
    fc.oneof(
      fc.constantFrom('response_type=code', 'response_type=token', 'response_type=', 'prompt=none'),
      fc.constantFrom('scope=store_full_access', 'scope=user_full_access', 'scope=all', 'scope='),
      fc.constantFrom('state=s', 'state=', 'state=%ff', 'state=%00', 'state=a%5Cb', 'state=a\\b'),
      fc.constantFrom('code_challenge=x', 'code_challenge_method=plain', '%zz', '&', '?'),
    ),
    { maxLength: 6 },
  )
  .map((pairs) => pairs.join('&'));

const asked = fc.record({
  client: fc.constantFrom(phishing, verified),
  more: rest,
  method: fc.constantFrom('GET', 'POST'),
});

const addressOf = (client: Client, more: string): string =>
  `/authorize?${new URLSearchParams(client).toString()}&${more}`;

test('without a session /authorize redirects to the sign-in page only', async () => {
  await fc.assert(
    fc.asyncProperty(asked, async ({ client, more, method }) => {
      const at = addressOf(client, more);
      const page = method === 'GET' ? await stranger.open(at) : await stranger.post(at, { decision: 'deny' });
      assert.deepEqual([page.status, new URL(page.location ?? '', server.origin).pathname], [303, '/sign-in'], at);
    }),
    { numRuns: amountOf('any-form', { all: 100, part: 30 }) },
  );
});

const faults: readonly (readonly [what: string, more: string, error: string, state: string | null])[] = [
  ['no response_type', 'scope=store_full_access&state=s', 'invalid_request', 's'],
  ['a repeated state', 'response_type=code&scope=store_full_access&state=s&state=t', 'invalid_request', null],
  ['an unknown scope', 'response_type=code&scope=all&state=a\\b%2B%23', 'invalid_scope', 'a\\b+#'],
  ['a state that is not UTF-8', 'response_type=code&scope=store_full_access&state=%ff', 'invalid_request', null],
];
for (const [what, more, error, state] of faults) {
  test(`after sign-in the client receives the error of the request as it was sent: ${what}`, async () => {
    const browser = createBrowser(server.origin);
    const { location } = await browser.open(addressOf(phishing, more));
    const returnTo = new URL(location ?? '', server.origin).searchParams.get('return_to') ?? '';
    const signedIn = await browser.post('/sign-in', { email: server.ada, password: PASSWORD, return_to: returnTo });
    const back = new URL((await browser.open(signedIn.location ?? '')).location ?? '');
    assert.equal(back.origin, 'https://phishing.example');
    assert.deepEqual([back.searchParams.get('error'), back.searchParams.get('state')], [error, state]);
  });
}

test('form-action of the sign-in page lists the redirect address of an erroneous request, and of no other', async () => {
  const policyAt = async (more: string): Promise<string> => {
    const { location } = await stranger.open(addressOf(phishing, more));
    return (await stranger.open(location ?? '')).headers.get('content-security-policy') ?? '';
  };
  assert.match(await policyAt('scope=all?&state=s'), /form-action 'self' https:\/\/phishing\.example https:;/);
  assert.match(await policyAt('response_type=code&scope=user_full_access&state=s'), /form-action 'self';/);
});
