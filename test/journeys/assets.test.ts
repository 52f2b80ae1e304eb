/** The scripts of pages: compressed, cached for ever, never inline, and absent where people enter passwords. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { startAuthorizationServer } from '../security/oauth-server.ts';

const server = await startAuthorizationServer();
const { origin, browser, alpha } = server;

const COMPRESSED_BYTES_MAX = 25 * 1024;

type Answer = { status: number; headers: Record<string, string | string[] | undefined>; body: Buffer };

/** Like `fetch`, without its own decompression. */
async function get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  request(origin + path, { headers, agent: false }, (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('end', () =>
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
    );
  })
    .on('error', reject)
    .end();
  return promise;
}

const page = await get(`/stores/${alpha}/webhooks`, { Accept: 'text/html', Cookie: browser.cookie() ?? '' });
const addresses = [...page.body.toString().matchAll(/<script type="module" blocking="render" src="([^"]*)">/g)].map(
  ([, src = '']) => src,
);

test('a page loads its scripts from our own origin, and may load no other script', () => {
  assert.equal(page.status, 200);
  assert.equal(addresses.length, 2);
  for (const address of addresses) assert.match(address, /^\/assets\/[0-9a-f]{16}\.js$/);
  const policy = String(page.headers['content-security-policy']);
  assert.equal(/script-src ([^;]*)/.exec(policy)?.[1], "'self'");
  assert.doesNotMatch(policy, /unsafe|\*|nonce/);
  const scripts = [...page.body.toString().matchAll(/<script\b[^>]*>([^<]*)/g)];
  assert.deepEqual(
    scripts.map(([, inline]) => inline),
    ['', ''],
    'no inline code',
  );
  assert.doesNotMatch(page.body.toString(), /\son[a-z]+="/, 'no inline handler');
});

test('a script is compressed as the browser accepts it, and is small', async () => {
  let total = 0;
  for (const address of addresses) {
    const plain = await get(address);
    assert.equal(plain.status, 200);
    assert.equal(plain.headers['content-type'], 'text/javascript; charset=utf-8');
    assert.equal(plain.headers['content-encoding'], undefined);
    const brotli = await get(address, { 'Accept-Encoding': 'gzip, deflate, br, zstd' });
    const gzip = await get(address, { 'Accept-Encoding': 'GZIP, br;q=0' });
    assert.deepEqual([brotli.headers['content-encoding'], gzip.headers['content-encoding']], ['br', 'gzip']);
    assert.deepEqual(brotliDecompressSync(brotli.body), plain.body);
    assert.deepEqual(gunzipSync(gzip.body), plain.body);
    const tags = new Set([plain, brotli, gzip].map(({ headers }) => headers['etag']));
    assert.equal(tags.size, 3, 'each encoding has its own entity tag');
    total += gzip.body.length;
  }
  assert.ok(total <= COMPRESSED_BYTES_MAX, `${total} bytes`);
});

test('a script is cached for ever, because another content has another address', async () => {
  for (const address of addresses) {
    const { headers } = await get(address);
    assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable');
    assert.equal(headers['vary'], 'Accept-Encoding');
    const known = await get(address, { 'If-None-Match': String(headers['etag']) });
    assert.deepEqual([known.status, known.body.length], [304, 0]);
    assert.equal((await get(address, { 'If-None-Match': '"other"' })).status, 200);
  }
});

test('no other file is served', async () => {
  for (const file of ['enhance.js', '0000000000000000.js', '..%2fpackage.json', '..%2f..%2fpackage.json', '%00'])
    assert.equal((await get(`/assets/${file}`)).status, 404, file);
});

test('pages on which people choose passwords or approve apps have no script, and forbid scripts', async () => {
  const Cookie = browser.cookie() ?? '';
  const consent = `/authorize?${new URLSearchParams(server.asking()).toString()}`;
  const signedIn = [consent, '/account', '/account/password', '/account/clients', '/account/clients/new'];
  for (const path of ['/forgot-password', ...signedIn]) {
    const isSignedIn = signedIn.includes(path);
    const shown = await get(path, { Accept: 'text/html', ...(isSignedIn && { Cookie }) });
    assert.equal(shown.status, 200, path);
    assert.doesNotMatch(shown.body.toString(), /<script/, path);
    const policy = String(shown.headers['content-security-policy']);
    assert.match(policy, /^default-src 'none'/, path);
    assert.doesNotMatch(policy, /script-src/, path);
  }
});
