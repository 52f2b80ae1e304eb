/** `text/plain` needs no preflight (CORS simple request): with a cookie in place of a bearer token it changes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startAuthorizationServer } from './oauth-server.ts';

const { origin, browser, alpha, sql } = await startAuthorizationServer();

for (const accept of ['text/html', 'application/json']) {
  for (const method of ['POST', 'PATCH']) {
    test(`a text/plain body with a session cookie is not read: ${method}, Accept: ${accept}`, async () => {
      const path = method === 'POST' ? `/stores/${alpha}/webhooks` : `/stores/${alpha}`;
      const response = await fetch(origin + path, {
        method,
        headers: {
          Accept: accept,
          Cookie: browser.cookie() ?? '',
          'Sec-Fetch-Site': 'same-origin',
          'SERVICE-API-VERSION': '1',
        },
        body: JSON.stringify({ name: 'Forged', format: 'partner_automation' }),
        redirect: 'manual',
      });
      assert.ok([401, 403].includes(response.status), String(response.status));
      const [row] = await sql<{ changed: number }[]>`
        select (select count(*)::int from webhook) + (select count(*)::int from store where name = 'Forged') as changed`;
      assert.equal(row?.changed, 0);
    });
  }
}
