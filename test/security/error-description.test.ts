/** For any input, errors stay inside the characters of RFC 6749 §5.2, and none is a 500. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { createRegistrationToken } from '#identity/oauth/registration/registration.ts';
import { startAuthorizationServer } from './oauth-server.ts';
import { amountOf } from '../setup/amount.ts';
import { anyText } from '../setup/any-text.ts';

const server = await startAuthorizationServer();
const { origin, client, browser, asking, sql } = server;
const invitation = await createRegistrationToken(sql, { days: 7, now: server.now() });
const RUNS = amountOf('any-form', { all: 150, part: 40 });

const DESCRIPTION = /^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/;
const CODE = /^[a-z_]+$/;

/** Texts that an attacker would try: quotes, line ends, invalid bytes, markup. */
const hostile = fc.oneof(
  anyText({ maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.constantFrom(
    '"',
    '\\',
    '\r\nX: y',
    '\0',
    '\u202e',
    '<script>',
    'a"b\\c',
    '\ud800',
    '{}',
    '[]',
    'null',
    '%00',
    '%ff',
  ),
);
const known = fc.constantFrom(
  'grant_type',
  'client_id',
  'client_secret',
  'code',
  'redirect_uri',
  'code_verifier',
  'refresh_token',
  'scope',
  'token',
);
const field = fc.tuple(fc.oneof({ weight: 4, arbitrary: known }, { weight: 1, arbitrary: hostile }), hostile);
const form = fc.array(field, { maxLength: 6 });

const encode = (text: string): string => encodeURIComponent(text.toWellFormed());
const encoded = (fields: readonly (readonly [string, string])[]): string =>
  fields.map((pair) => pair.map(encode).join('=')).join('&');

function assertDescribed(error: unknown, description: unknown, what: string): void {
  assert.match(String(error), CODE, what);
  assert.match(String(description), DESCRIPTION, what);
}

async function assertRefusedWell(response: Response, what: string): Promise<void> {
  assert.ok(response.status < 500, `${response.status}: ${what}`);
  const challenge = response.headers.get('www-authenticate');
  const [, quoted] = /error_description="([^"]*)"/.exec(challenge ?? '') ?? [];
  if (quoted !== undefined) assert.match(quoted, DESCRIPTION, what);
  const answer = (await response.json()) as Record<string, unknown>;
  if (response.status < 400) return;
  assertDescribed(answer['error'], answer['error_description'], what);
}

for (const path of ['/token', '/revoke', '/introspect']) {
  test(`the errors of ${path} contain only permitted characters`, async () => {
    const grant = fc.constantFrom('authorization_code', 'refresh_token', 'client_credentials', 'x');
    await fc.assert(
      fc.asyncProperty(form, fc.boolean(), grant, async (fields, isKnown, grantType) => {
        // Half of them authenticate as a client, and so are processed further.
        const own: [string, string][] = isKnown ? [['grant_type', grantType], ...Object.entries(client)] : [];
        const rest = fields.filter(([name]) => !own.some(([taken]) => taken === name));
        const body = encoded([...own, ...rest]);
        const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
        await assertRefusedWell(await fetch(origin + path, { method: 'POST', headers, body }), body);
      }),
      { numRuns: RUNS },
    );
  });
}

test('the errors of /register contain only permitted characters', async () => {
  const metadata = fc.dictionary(
    fc.oneof(fc.constantFrom('redirect_uris', 'client_name', 'contacts', 'scope', 'grant_types'), hostile),
    fc.oneof(hostile, fc.array(hostile, { maxLength: 3 }), fc.integer(), fc.constant(null)),
  );
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${invitation}` };
  const body = fc.oneof(
    { weight: 3, arbitrary: metadata.map((given) => JSON.stringify(given)) },
    { weight: 1, arbitrary: hostile },
  );
  await fc.assert(
    fc.asyncProperty(body, async (text) => {
      await assertRefusedWell(await fetch(`${origin}/register`, { method: 'POST', headers, body: text }), text);
    }),
    { numRuns: RUNS },
  );
});

test('the errors that /authorize sends to a client contain only permitted characters', async () => {
  const names = ['response_type', 'scope', 'state', 'code_challenge', 'code_challenge_method', 'prompt'];
  const changes = fc.dictionary(fc.constantFrom(...names), hostile, { minKeys: 1 });
  let reported = 0;
  await fc.assert(
    fc.asyncProperty(changes, async (given) => {
      const query = encoded(Object.entries({ ...asking(), ...given }));
      const { status, location } = await browser.open(`/authorize?${query}`);
      assert.ok(status < 500, query);
      if (location === null) return;
      const { searchParams } = new URL(location);
      assertDescribed(searchParams.get('error'), searchParams.get('error_description'), query);
      assert.equal(searchParams.get('error_message'), searchParams.get('error_description'));
      reported += 1;
    }),
    { numRuns: RUNS, examples: [[{ response_type: 'none' }]] },
  );
  assert.ok(reported > 0);
});

test('the errors of the API about a token contain only permitted characters', async () => {
  // Valid header values: without control characters, which no client could send.
  const character = fc.oneof(fc.integer({ min: 0x21, max: 0x7e }), fc.integer({ min: 0xa0, max: 0xff }));
  const printable = fc.string({ unit: character.map((code) => String.fromCodePoint(code)), minLength: 1 });
  await fc.assert(
    fc.asyncProperty(printable, async (value) => {
      const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${value}` };
      const response = await fetch(`${origin}/stores`, { headers });
      assert.equal(response.status, 401);
      await assertRefusedWell(response, value);
    }),
    { numRuns: RUNS },
  );
});
