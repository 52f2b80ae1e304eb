/** A client may state the address of its logo: neither the server nor the browser at the consent page requests it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRegistrationToken } from '#identity/oauth/registration/registration.ts';
import { startReceiver } from '../setup/receiver.ts';
import { startAuthorizationServer } from './oauth-server.ts';

const elsewhere = await startReceiver();
const server = await startAuthorizationServer({ OUTBOUND_ALLOW: '127.0.0.0/8' });
const { origin, browser, sql } = server;
const CALLBACK = 'https://pictured.example.com/cb';
const metadata = {
  client_name: `Pictured <img src="${elsewhere.url}/name.png">`,
  redirect_uris: [CALLBACK],
  logo_uri: `${elsewhere.url}/logo.png`,
  client_uri: elsewhere.url,
  jwks_uri: `${elsewhere.url}/keys`,
  sector_identifier_uri: `${elsewhere.url}/sector`,
};

async function register(): Promise<string> {
  const invitation = await createRegistrationToken(sql, { days: 7, now: server.now() });
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${invitation}` };
  const response = await fetch(`${origin}/register`, { method: 'POST', headers, body: JSON.stringify(metadata) });
  assert.equal(response.status, 201);
  return ((await response.json()) as { client_id: string }).client_id;
}

test('the address of a logo is never requested', async () => {
  const clientId = await register();
  const asked = server.asking({ client_id: clientId, redirect_uri: CALLBACK });
  const consent = await browser.open(`/authorize?${new URLSearchParams(asked).toString()}`);
  assert.equal(consent.status, 200);
  assert.match(consent.text, /Pictured/);
  await browser.consent(asked);
  const pages = [consent, await browser.open('/account'), await browser.open('/account/clients')];
  for (const { text, headers } of pages) {
    assert.ok(!/<(?:img|link|script|iframe)[^>]*127\.0\.0\.1/.test(text), text);
    assert.match(headers.get('content-security-policy') ?? '', /img-src 'self';/);
  }
  assert.equal((await fetch(`${origin}/clients/${clientId}/logo`)).status, 404);
  assert.deepEqual(elsewhere.got, []);
  // Proves that the address can be reached.
  assert.equal((await fetch(metadata.logo_uri)).status, 204);
  assert.equal(elsewhere.got.length, 1);
});

test('no table has a logo that was not uploaded, nor the address of one', async () => {
  await register();
  const logos = await sql`select from client_logo`;
  assert.equal(logos.length, 0);
  const rows = await sql<{ row: string }[]>`select client::text as row from client`;
  assert.ok(
    rows.some(({ row }) => row.includes(CALLBACK)),
    'the search finds what is stored',
  );
  for (const { row } of rows) assert.ok(!row.includes('logo.png') && !row.includes('/sector'), row);
});
