/** What programs request at fixed addresses of any site. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/config/config.ts';
import { createFixedAddresses } from '#http/fixed-addresses.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { startTestApp } from '../setup/app.ts';

const CONTACT = 'mailto:security@example.com';
const { baseUrl, clock } = await startTestApp({ roles: ['serve'], env: { SECURITY_CONTACT: CONTACT } });
const { baseUrl: without } = await startTestApp({ roles: ['serve'] });

async function ask(address: string, accept = '*/*') {
  const response = await fetch(address, { redirect: 'manual', headers: { Accept: accept } });
  const { status, headers } = response;
  const [type, location] = ['content-type', 'location'].map((name) => headers.get(name));
  return { status, type, location, text: await response.text() };
}

test('security.txt has the contact of the operator, and an expiry in the future', async () => {
  const { status, type, text } = await ask(`${baseUrl}/.well-known/security.txt`);
  assert.deepEqual([status, type], [200, 'text/plain; charset=utf-8']);
  const fields = Object.fromEntries(
    text
      .trim()
      .split('\n')
      .map((line) => line.split(/: (.*)/s, 2)),
  );
  assert.deepEqual(Object.keys(fields), ['Contact', 'Expires', 'Canonical']);
  assert.deepEqual([fields['Contact'], fields['Canonical']], [CONTACT, `${baseUrl}/.well-known/security.txt`]);
  const days = (Date.parse(fields['Expires'] ?? '') - clock.now().getTime()) / 86_400_000;
  assert.ok(days > 29 && days < 31, `${days} days`);
});

test('without a contact security.txt is a 404', async () => {
  assert.equal((await ask(`${without}/.well-known/security.txt`)).status, 404);
});

test('a contact is an address that a person can write to', () => {
  const read = (SECURITY_CONTACT: string) => readConfig({ SECURITY_CONTACT }, '/').securityContact;
  for (const good of [CONTACT, 'https://example.com/report?to=us']) assert.equal(read(good), good);
  for (const bad of [
    'security@example.com',
    'http://example.com',
    'mailto:x',
    `${CONTACT}\nExpires: never`,
    'javascript:x',
  ])
    assert.throws(() => read(bad), /SECURITY_CONTACT/, bad);
});

test('a password manager is sent to the page that changes the password', async () => {
  const { status, location } = await ask(`${baseUrl}/.well-known/change-password`, 'text/html');
  assert.deepEqual([status, location], [303, '/account/password']);
  // Signed out, this page leads to sign-in and back, which is no 404 either.
  assert.equal((await ask(`${baseUrl}${location}`, 'text/html')).status, 303);
});

test('crawlers are allowed the public pages only', async () => {
  const { status, type, text } = await ask(`${baseUrl}/robots.txt`);
  assert.deepEqual([status, type], [200, 'text/plain; charset=utf-8']);
  assert.equal(text, 'User-agent: *\nAllow: /llms.txt\nAllow: /docs\nAllow: /rels\nAllow: /apps/\nDisallow: /\n');
});

test('they lead to the API and the pages at their own paths', async () => {
  const at = { baseUrl: 'https://example.com/v1', authUrl: 'https://example.com/id' };
  const { changePassword, robots, securityText } = createFixedAddresses(at, CONTACT);
  const answerOf = (handle: RawHandler) => handle({ now: new Date(0) } as RawRequest);
  const textOf = async (handle: RawHandler) => {
    const { body } = await answerOf(handle);
    return typeof body === 'string' ? body : '';
  };
  assert.equal((await answerOf(changePassword)).headers['Location'], '/id/account/password');
  assert.match(await textOf(robots), /Allow: \/v1\/docs\nAllow: \/v1\/rels\nAllow: \/id\/apps\/\n/);
  assert.match(await textOf(securityText), /\nCanonical: https:\/\/example\.com\/\.well-known\/security\.txt\n/);
});
