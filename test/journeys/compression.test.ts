/** Every read is compressed for clients that ask for it, if it is large enough and contains no secret, and says the same. */
import assert from 'node:assert/strict';
import { request, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { startFurnishedApp } from '../setup/app-with-resources.ts';
import { fillIn, operationTable } from '../security/route-table.ts';

const app = await startFurnishedApp();
const { named, storeId } = app;

/** Returns the response as it is sent: `fetch` decodes it. */
async function ask(path: string, headers: Readonly<Record<string, string>> = {}) {
  const common = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${app.token}` };
  const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<typeof whole>>>();
  const whole = async (response: IncomingMessage) => ({
    status: response.statusCode,
    headers: response.headers,
    body: await buffer(response),
  });
  request(app.baseUrl + path, { headers: { ...common, ...headers } })
    .on('response', (response) => void whole(response).then(resolve, reject))
    .on('error', reject)
    .end();
  return promise;
}

const reads = operationTable(app.baseUrl).filter(({ method, operation }) => method === 'GET' && !operation.isStream);
const SECRET = /"(?:next_)?encryption_key":"/;

for (const described of reads)
  test(`GET ${described.path} says the same with and without compression`, async () => {
    const path = fillIn(described, named);
    const token = described.operation.access === 'token' ? app.token : app.platformToken;
    const read = (headers = {}) => ask(path, { Authorization: `Bearer ${token}`, ...headers });
    const [plain, asked] = await Promise.all([read(), read({ 'Accept-Encoding': 'br;q=0.5, gzip' })]);
    assert.equal(asked.status, plain.status);
    assert.equal(plain.headers['content-encoding'], undefined);
    const mustBe = plain.status === 200 && plain.body.length >= 1_024 && !SECRET.test(plain.body.toString());
    assert.equal(asked.headers['content-encoding'], mustBe ? 'gzip' : undefined);
    if (!mustBe) return;
    assert.equal(Number(asked.headers['content-length']), asked.body.length);
    assert.ok(asked.body.length < plain.body.length);
    assert.match(String(asked.headers.vary), /Accept-Encoding/);
    assert.equal(gunzipSync(asked.body).toString(), plain.body.toString());
    assert.equal(asked.headers.etag, plain.headers.etag?.replace(/"$/, '-gzip"'));
    for (const tag of [asked.headers.etag, plain.headers.etag])
      assert.equal((await read({ 'Accept-Encoding': 'gzip', 'If-None-Match': String(tag) })).status, 304);
  });

test('documents and pages are compressed, and webhooks, which have keys, are not', async () => {
  const isCompressed = async (path: string, accept = 'application/hal+json') =>
    (await ask(path, { 'Accept-Encoding': 'gzip', Accept: accept })).headers['content-encoding'] === 'gzip';
  assert.equal(await isCompressed(`/stores/${storeId}`), true);
  assert.equal(await isCompressed('/docs', 'text/html'), true);
  assert.equal(await isCompressed('/openapi.json'), true);
  assert.equal(await isCompressed(`/stores/${storeId}/webhooks`), false);
  assert.equal(await isCompressed(`/webhooks/${named['webhook_id']}`), false);
});

for (const refused of ['', 'identity', 'gzip;q=0', 'br', '*'])
  test(`nothing is compressed for a client that accepts "${refused}"`, async () => {
    const { headers } = await ask('/openapi.json', { 'Accept-Encoding': refused });
    assert.equal(headers['content-encoding'], undefined);
  });
