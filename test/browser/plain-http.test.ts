/** Sign-in over plain http, at a name that is not localhost: the browser then sends only the Origin of a form. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { freePort } from '../setup/free-port.ts';

const NAME = 'shop.example.test';

const browser = 'skip' in needsChromium ? undefined : await openBrowser([NAME]);
after(() => browser?.close());
const port = await freePort();
const authUrl = `http://${NAME}:${port}`;
await startTestApp({
  roles: ['serve'],
  env: { PORT: String(port), BASE_URL: `http://127.0.0.1:${port}`, AUTH_URL: authUrl },
});

test('a person signs in and makes a change', needsChromium, async () => {
  assert.ok(browser !== undefined);
  const page = await browser.newPage();
  await page.goto(`${authUrl}/sign-in`);
  await page.getByLabel('E-mail').fill('owner@example.com');
  await page.getByLabel('Password').fill('a long password');
  await page.getByRole('button', { name: 'Sign in' }).click();
  // The cookie identifies them from now on; without it the page would redirect to the sign-in.
  await page.waitForURL((url) => url.pathname !== '/sign-in');
  assert.equal(new URL(page.url()).origin, authUrl);
  await page.getByRole('button', { name: 'Sign out' }).first().click();
  await page.waitForURL(/sign-in/);
});
