/** The example of a partner app, started as its README says: an owner connects the demo's store in Chromium, and an order arrives. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { installedCopy } from '../docs/installed.ts';
import { startShell } from '../docs/shell.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { freePort } from '../setup/free-port.ts';

const FOLDER = 'examples/partner-app';
/** An example is read as a document. */
const LINES_MAX = 150;

test('the example is one file that can be read at once', async () => {
  const text = await readFile(join(import.meta.dirname, '../..', FOLDER, 'app.js'), 'utf8');
  assert.ok(text.split('\n').length <= LINES_MAX);
});

test('an owner connects the store, and an order is on the board', needsChromium, async (t) => {
  const place = await installedCopy();
  t.after(() => place.remove());
  const shell = await startShell(place.path, join(place.path, '.notes', 'partner-app'), place.env);
  t.after(() => shell.close());
  const server = await shell.keepRunning('npm start', 'ctrl-C stops it');
  t.after(() => server.end());
  const port = await freePort();
  const environment = `PORT=${port} HALCYON_URL=http://localhost:${place.port}`;
  const example = await shell.keepRunning(`cd ${FOLDER} && ${environment} npm start`, 'Order board: http');
  t.after(() => example.end());
  const { user } = JSON.parse(await readFile(join(place.path, '.halcyon/demo.json'), 'utf8')) as {
    user: { email: string; password: string };
  };

  const browser = await openBrowser();
  t.after(() => browser.close());
  const page = await browser.newPage();
  await page.goto(`http://localhost:${port}/`);
  await page.getByRole('link', { name: 'Connect a store' }).click();
  await page.getByLabel(/e-mail/i).fill(user.email);
  await page.getByLabel(/password/i).fill(user.password);
  await page.getByRole('button', { name: /sign in/i }).click();
  await page.getByRole('radio').first().check();
  await page.getByRole('button', { name: /allow/i }).click();
  await page.getByRole('heading', { level: 2 }).waitFor();

  const order = `'{"event":"transaction/created","resource":{"id":1001,"total_order":12.5}}'`;
  const { failed, output } = await shell.run(`echo ${order} | npm run --silent halcyon -- publish -`, '', () => {});
  assert.deepEqual(failed, [], output);
  await page.getByRole('cell', { name: '1001' }).waitFor();
  // A redirect that this browser did not ask for connects nothing.
  const forged = await fetch(`http://localhost:${port}/callback?code=x&state=y`, { redirect: 'manual' });
  assert.equal(forged.status, 302);
});
