/** HTTP at every address of the table: resources, pages and endpoints of protocols alike. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askAlone } from '../setup/wire.ts';
import { ISSUER, startAuthorizationServer } from './oauth-server.ts';
import { routeTable } from './route-table.ts';

const server = await startAuthorizationServer();
const secure = await startAuthorizationServer({
  BASE_URL: 'https://auth.example.test',
  AUTH_URL: 'https://auth.example.test',
});
const routes = routeTable(ISSUER).map(({ path }) => path.replaceAll(/:\w+/g, '1'));

async function statusOf(path: string, headers: readonly string[]) {
  const head = [`GET ${path} HTTP/1.1`, ...headers, 'Connection: close', '', ''].join('\r\n');
  const port = Number(new URL(server.origin).port);
  const [answer] = await askAlone(port, { method: 'GET', bytes: Buffer.from(head) }, { timeoutMs: 10_000, ends: true });
  return { status: answer?.status, body: answer?.body.toString() ?? '' };
}

for (const path of routes) {
  test(`OPTIONS answers with a document of the methods: ${path}`, async () => {
    const response = await fetch(server.origin + path, { method: 'OPTIONS' });
    assert.equal(response.status, 200);
    const { methods } = (await response.json()) as { methods: Record<string, string> };
    assert.deepEqual(Object.keys(methods).toSorted(), response.headers.get('allow')?.split(', ').toSorted());
    for (const [method, summary] of Object.entries(methods)) assert.match(summary, /\w{3,}/, method);
  });
}

for (const path of ['/', '/sign-in', '/token', '/nowhere']) {
  const once = ['Host: auth.example.test', 'Authorization: Bearer x', 'SERVICE-API-VERSION: 1'];
  for (const again of [
    'Host: evil.example',
    'Authorization: Bearer y',
    'authorization: Basic eDp5',
    'host: auth.example.test',
  ]) {
    test(`a header with one value may be sent once only: ${again} beside another at ${path}`, async () => {
      const { status, body } = await statusOf(path, [...once, again]);
      assert.equal(status, 400);
      assert.match(body, new RegExp(`${again.split(':')[0] ?? ''} is sent more than once`, 'i'));
      assert.notEqual((await statusOf(path, once)).status, 400);
    });
  }
}

test('with an https issuer, every answer has Strict-Transport-Security', async () => {
  for (const path of [...routes, '/nowhere']) {
    const read = async ({ origin }: { origin: string }) => {
      const response = await fetch(origin + path, { redirect: 'manual' });
      await response.arrayBuffer();
      return response.headers.get('strict-transport-security');
    };
    assert.deepEqual([await read(secure), await read(server)], ['max-age=31536000', null], path);
  }
});
