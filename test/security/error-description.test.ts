/** For any input, errors of the protocol stay inside the characters of RFC 6749 §5.2, have its format, and none is a 500. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { createRegistrationToken } from '#identity/oauth/registration/registration.ts';
import { startAuthorizationServer } from './oauth-server.ts';
import { amountOf } from '../setup/amount.ts';
import { anyText } from '../setup/any-text.ts';

const server = await startAuthorizationServer();
const { origin, client, browser, asking, sql, statements } = server;
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

// Descriptions of errors

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

// Malformed requests

const FORM = 'application/x-www-form-urlencoded';
const credentials = new URLSearchParams({ ...client }).toString();
const sound = `${credentials}&grant_type=refresh_token&token=x`;

// oxfmt-ignore
const faults: [what: string, body: string | Uint8Array<ArrayBuffer>, contentType: string, status: number][] = [
  ['a parameter twice',         `${sound}&token=y&grant_type=refresh_token`,  FORM,                  400],
  ['client_id twice',           `${sound}&client_id=${client.client_id}`,     FORM,                  400],
  ['a NUL',                     `${sound}&scope=%00`,                         FORM,                  400],
  ['a NUL in a name',           `${sound}&a%00b=c`,                           FORM,                  400],
  ['a broken escape',           `${sound}&scope=%zz`,                         FORM,                  400],
  ['escaped bytes not in UTF-8', `${sound}&scope=%ff`,                        FORM,                  400],
  ['bytes not in UTF-8',        Uint8Array.of(0x74, 0x3d, 0xff),              FORM,                  400],
  ['JSON',                      '{"token":"x"}',                              'application/json',    400],
  ['plain text',                sound,                                        'text/plain',          400],
  ['a multipart form',          sound,                                        'multipart/form-data; boundary=x', 400],
  ['two megabytes',             `${sound}&scope=${'a'.repeat(2_097_152)}`,    FORM,                  413],
];
for (const path of ['/token', '/revoke', '/introspect', '/device_authorization']) {
  for (const [what, body, contentType, status] of faults) {
    test(`${path} with ${what} is ${status} invalid_request`, async () => {
      statements.length = 0;
      const headers = { 'Content-Type': contentType };
      const response = await fetch(origin + path, { method: 'POST', headers, body });
      assert.equal(response.status, status);
      const answer = (await response.json()) as Record<string, string>;
      assert.deepEqual(Object.keys(answer), ['error', 'error_description']);
      assert.equal(answer['error'], 'invalid_request');
      assert.match(answer['error_description'] ?? '', /^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/);
      assert.equal(response.headers.get('cache-control'), 'no-store');
      assert.deepEqual(statements, [], 'and it costs no statement');
    });
  }

  test(`${path} with an encoded form is 415 invalid_request`, async () => {
    for (const [encoding, status] of [
      ['gzip', 415],
      ['br', 415],
      ['identity', 400],
    ] as const) {
      const headers = { 'Content-Type': FORM, 'Content-Encoding': encoding };
      const body = status === 415 ? gzipSync(sound) : 'a=%zz';
      const response = await fetch(origin + path, { method: 'POST', headers, body });
      const { error } = (await response.json()) as Record<string, string>;
      assert.deepEqual([response.status, error], [status, 'invalid_request'], encoding);
      assert.equal(response.headers.get('accept-encoding'), status === 415 ? 'identity' : null);
    }
  });

  test(`${path} with 100 KB of headers is a 431`, async () => {
    const headers = { 'Content-Type': FORM, 'X-Large': 'a'.repeat(102_400) };
    const response = await fetch(origin + path, { method: 'POST', headers, body: sound });
    assert.equal(response.status, 431);
  });

  test(`${path} with an endless client_id, token or secret is rejected`, async () => {
    const long = 'a'.repeat(100_000);
    for (const name of ['client_id', 'client_secret', 'token', 'refresh_token']) {
      const body = new URLSearchParams({ grant_type: 'refresh_token', token: 'x', ...client, [name]: long });
      const { status } = await fetch(origin + path, { method: 'POST', body });
      assert.ok(status < 500, `${name}: ${status}`);
    }
  });
}

test('no error repeats its input', async () => {
  const secret = `hal_cs_${'s'.repeat(43)}`;
  const bodies = [
    { ...client, client_secret: secret },
    { ...client, grant_type: secret },
    { ...client, code: secret },
  ];
  for (const fields of bodies) {
    const { status, body } = await server.token({ grant_type: 'authorization_code', ...fields });
    assert.ok(status >= 400);
    assert.ok(!JSON.stringify(body).includes('sss'));
  }
});
