/** Numbers that JavaScript cannot represent reach receivers and readers digit by digit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';

const app = await startTestApp();
const { api, baseUrl, platformToken, storeId } = app;
const store = `/stores/${storeId}`;
const receiver = await startReceiver();

const NUMBERS = ['9007199254740993', '12.50', '-0', '1E+2', '0.00000010', '123456789012345678.900', '1.0'];
const MEMBERS = `"numbers":[${NUMBERS.join(',')}],"total_order":12.50,"currency_code":"EUR"`;

function publishText(text: string, type = 'application/json'): Promise<Response> {
  return fetch(`${baseUrl}${store}/events`, {
    method: 'POST',
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${platformToken}`, 'Content-Type': type },
    body: text,
  });
}

async function readText(path: string, accept = 'application/hal+json'): Promise<string> {
  const response = await api('GET', store + path, { headers: { Accept: accept } });
  assert.equal(response.status, 200, path);
  return response.text();
}

async function subscribe(format: string, path: string): Promise<void> {
  const url = `${receiver.url}${path}`;
  const body = { name: format, format, encryption_key: 'k', url, events: ['transaction/created'], query: 'zoom=items' };
  const response = await api('POST', `${store}/webhooks`, { body });
  assert.equal(response.status, 201, await response.text());
}

test('a delivery contains the numbers as they were published, in each format', async () => {
  await subscribe('json', '/json');
  await subscribe('partner_automation', '/flat');
  const resource = `{"id":9007199254740993,${MEMBERS},"_embedded":{"items":[{"price":19.90,"quantity":2.0}]}}`;
  const response = await publishText(`{"event":"transaction/created","resource":${resource}}`);
  assert.equal(response.status, 201, await response.text());
  await receiver.until(2);
  const bodyAt = (path: string) => receiver.got.find((one) => one.path === path)?.body.toString() ?? '';
  assert.match(bodyAt('/json'), /"id":9007199254740993,/);
  assert.ok(bodyAt('/json').includes(MEMBERS), bodyAt('/json'));
  assert.match(bodyAt('/json'), /"price":19\.90,"quantity":2\.0/);
  assert.ok(bodyAt('/flat').includes(MEMBERS), bodyAt('/flat'));
  assert.equal(await readText('/transactions/9007199254740993?zoom=items'), bodyAt('/json'));
});

test('a resource is read with the numbers as they were published', async () => {
  const resource = `{"id":7,${MEMBERS},"_embedded":{"items":[{"price":19.90}]}}`;
  const form = new URLSearchParams({ event: 'transaction/created', resource }).toString();
  const response = await publishText(form, 'application/x-www-form-urlencoded');
  assert.equal(response.status, 201, await response.text());
  for (const accept of ['application/hal+json', 'application/vnd.siren+json'])
    assert.ok((await readText('/transactions/7', accept)).includes(MEMBERS), accept);
  assert.ok((await readText('/transactions')).includes(MEMBERS));
  assert.match(await readText('/transactions/7/items'), /"price":19\.90/);
  const xml = await readText('/transactions/7?zoom=items', 'application/hal+xml');
  for (const number of NUMBERS) assert.ok(xml.includes(`<numbers>${number}</numbers>`), xml);
  assert.match(xml, /<price>19\.90<\/price>/);
  const page = await readText('/transactions/7', 'text/html');
  for (const number of [...NUMBERS, '€12.50']) assert.ok(page.includes(number), number);
});

test('a filter finds a number in any spelling', async () => {
  const response = await publishText('{"event":"customer/created","resource":{"id":1,"score":12.50,"grade":"1.10"}}');
  assert.equal(response.status, 201);
  const totalOf = async (query: string) =>
    (JSON.parse(await readText(`/customers?${query}`)) as { total_items: string }).total_items;
  assert.equal(await totalOf('score=12.5'), '1');
  assert.equal(await totalOf('score:not=12.5'), '0');
  assert.equal(await totalOf('score:in=A,12.5,B'), '1');
  assert.equal(await totalOf('score:greaterthan=12.49'), '1');
  assert.equal(await totalOf('grade=1.10'), '1');
  assert.equal(await totalOf('grade=1.1'), '0');
});

test('a subscription event copies the numbers of the subscription', async () => {
  const resource = '{"id":5,"is_active":1.0,"past_due_amount":0.00,"balance":9007199254740993}';
  assert.equal((await publishText(`{"event":"subscription/created","resource":${resource}}`)).status, 201);
  const events = await readText('/subscription_events?zoom=subscription');
  assert.match(events, /"past_due_amount":0\.00,"balance":9007199254740993/);
});

test('a number that readers cannot read is refused with the reason, and nothing is published', async () => {
  const long = `0.${'1'.repeat(70)}`;
  const cases: [number: string, message: RegExp][] = [
    ['1e999', /resource\.amount is too large for a number: send it as a string, in quotes/],
    ['1e-999', /1e-999 is too small for a number: send it as a string, in quotes/],
    [long, /A number has more than 64 characters: send it as a string, in quotes/],
  ];
  for (const [number, message] of cases) {
    const response = await publishText(`{"event":"customer/created","resource":{"id":99,"amount":${number}}}`);
    assert.equal(response.status, 400, number);
    assert.match(await response.text(), message);
  }
  assert.equal((await api('GET', `${store}/customers/99`)).status, 404);
});

test('two events that differ in the last digit only are two events for an idempotency key', async () => {
  const send = (digit: number) =>
    publishText(
      `{"event":"customer/created","idempotency_key":"once","resource":{"id":50,"total":900719925474099${digit}.0}}`,
    );
  assert.equal((await send(2)).status, 201);
  assert.equal((await send(3)).status, 422);
});
