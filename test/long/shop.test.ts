/** The example of a shop, started as its README says: an order and its refund are published from the outbox, with their numbers. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { installedCopy } from '../docs/installed.ts';
import { startShell } from '../docs/shell.ts';
import { freePort } from '../setup/free-port.ts';
import { until } from '../setup/until.ts';

const FOLDER = 'examples/shop';
/** An example is read as a document. */
const LINES_MAX = 150;

type Demo = { base_url: string; store_id: number; access_token: string };

test('the example is one file that can be read at once', async () => {
  const text = await readFile(join(import.meta.dirname, '../..', FOLDER, 'shop.js'), 'utf8');
  assert.ok(text.split('\n').length <= LINES_MAX);
});

test('an order that is bought, refunded and deleted is published each time', async (t) => {
  const place = await installedCopy();
  t.after(() => place.remove());
  const shell = await startShell(place.path, join(place.path, '.notes', 'shop'), place.env);
  t.after(() => shell.close());
  const server = await shell.keepRunning('npm start', 'ctrl-C stops it');
  t.after(() => server.end());
  const [port, databasePort] = [await freePort(), await freePort()];
  const environment = `PORT=${port} SHOP_DATABASE_PORT=${databasePort}`;
  const example = await shell.keepRunning(`cd ${FOLDER} && ${environment} npm start`, 'Shop: http');
  t.after(() => example.end());
  const demo = JSON.parse(await readFile(join(place.path, '.halcyon/demo.json'), 'utf8')) as Demo;
  const get = (path: string): Promise<Response> =>
    fetch(`${demo.base_url}/stores/${demo.store_id}${path}`, {
      headers: { Authorization: `Bearer ${demo.access_token}`, 'SERVICE-API-VERSION': '1' },
    });
  const post = async (path: string, form: Record<string, string> = {}): Promise<void> => {
    const answer = await fetch(`http://localhost:${port}${path}`, { method: 'POST', body: new URLSearchParams(form) });
    assert.equal(answer.status, 200, await answer.text());
  };

  await post('/orders', { product: 'Coffee', email: 'ada@example.com' });
  const order = await until(
    async () => (await get('/transactions/1')).text(),
    (text) => text.includes('"paid"'),
  );
  assert.match(order, /"total_order":12\.50,/);
  await post('/orders/1/refund');
  await until(
    async () => (await get('/transactions/1')).text(),
    (text) => text.includes('"refunded"'),
  );
  await post('/orders/1/delete');
  await until(
    async () => (await get('/transactions/1')).status,
    (status) => status === 410,
  );
});
