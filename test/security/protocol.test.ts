/** Malformed requests to the endpoints of tokens and devices are answered in the protocol's own error format. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { origin, client, statements } = server;

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
  for (const form of bodies) {
    const { status, body } = await server.token({ grant_type: 'authorization_code', ...form });
    assert.ok(status >= 400);
    assert.ok(!JSON.stringify(body).includes('sss'));
  }
});
