/** An owner in New Zealand repairs a webhook and recovers a morning: what the pages show and read is in the time zone of the store. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBrowser, startAuthorizationServer } from '../security/oauth-server.ts';
import { createFiller, filled, formsIn } from '../setup/form-filler.ts';
import { faultsIn } from '../setup/html-validator.ts';
import { startReceiver } from '../setup/receiver.ts';
import { send } from '../setup/send.ts';
import { until } from '../setup/until.ts';

const ZONE = 'Pacific/Auckland';
const HOUR_MS = 3_600_000;

const server = await startAuthorizationServer({ OUTBOUND_ALLOW: '127.0.0.0/8' }, { roles: ['serve', 'deliver'] });
const { alpha, sql } = server;
await sql`update store set time_zone = ${ZONE} where id = ${alpha}`;
const receiver = await startReceiver();
let status = 410;
const arrived: string[] = [];
receiver.answer(({ body }, response) => {
  if (status === 200) arrived.push(String((JSON.parse(body.toString()) as { id: unknown }).id));
  response.writeHead(status).end();
});

/** Publishes a customer at a time of the store, later than the one before. */
async function publish(id: string, local: string): Promise<Date> {
  const at = new Date(Temporal.PlainDateTime.from(local).toZonedDateTime(ZONE).epochMilliseconds);
  server.wait(at.getTime() - server.now().getTime());
  const { body } = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  const headers = {
    'SERVICE-API-VERSION': '1',
    Authorization: `Bearer ${String(body['access_token'])}`,
    'Content-Type': 'application/json',
  };
  const event = JSON.stringify({ event: 'customer/created', resource: { id } });
  const made = await send(`${server.origin}/stores/${alpha}/events`, { method: 'POST', headers, body: event });
  assert.equal(made.status, 201, made.text);
  return at;
}

const signedIn = async () => {
  const browser = createBrowser(server.origin);
  await browser.signIn(server.ada);
  return createFiller(server.origin, browser);
};
const textOf = (page: string): string => page.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ');
/** Returns the form of an action of the page. */
function formAt(page: string, action: string, method = 'POST'): URLSearchParams {
  const found = formsIn(page).find((one) => one.action === action && one.method === method);
  assert.ok(found, `no form for ${method} ${action}`);
  return found.form;
}

test('an owner in Auckland repairs a webhook, sees how many events a period has, and gets the events of a morning', async () => {
  const evening = await signedIn();
  const list = `/stores/${alpha}/webhooks`;
  const settings = { name: 'Newsletter', format: 'json', url: receiver.url, event_resource: 'customer' };
  const made = await evening.send(list, filled(await evening.formFor(list, 'POST'), settings));
  const webhook = (made.headers.get('location') ?? '').split('?', 1)[0] ?? '';
  const published = [await publish('1', '2026-07-01T22:30')];
  await until(
    async () => textOf(await (await evening.show(webhook)).text()),
    (text) => text.includes('Halcyon disabled this webhook'),
  );
  for (const [id, local] of [
    ['2', '2026-07-02T07:59:59'],
    ['3', '2026-07-02T08:00'],
    ['4', '2026-07-02T11:59:59'],
    ['5', '2026-07-02T12:00'],
  ] as const)
    published.push(await publish(id, local));
  server.wait(2 * HOUR_MS);

  status = 200;
  const owner = await signedIn();
  const enable = formsIn(await (await owner.show(webhook)).text()).find(({ form }) => form.get('is_active') === '1');
  assert.equal((await owner.send(webhook, enable?.form ?? new URLSearchParams())).status, 303);

  const recover = `${webhook}/recover`;
  const page = await (await owner.show(webhook)).text();
  assert.ok(textOf(page).includes(`In the time zone ${ZONE}.`));
  const offered = [...page.matchAll(/type="radio" name="since" value="([^"]+)"/g)].map(([, value = '']) => value);
  const form = formAt(page, recover);
  assert.equal(form.get('since'), offered[0], 'the first offer is chosen');
  // Since an hour before the first failure, the last hour, today.
  assert.deepEqual(offered, ['2026-07-01T22:00:00+1200', '2026-07-02T13:00:00+1200', '2026-07-02T00:00:00+1200']);
  const counted = async (changes: Record<string, string>) => {
    const asked = filled(form, { ...changes, _preview: '1' });
    const response = await owner.send(recover, asked);
    const text = await response.text();
    assert.equal(response.status, 200, textOf(text));
    return { count: Number(/(\d+) events? would be sent/.exec(text)?.[1]), page: text };
  };
  for (const since of offered) {
    const { count } = await counted({ since });
    assert.equal(count, published.filter((at) => at >= new Date(`${since.slice(0, 22)}:00`)).length, since);
  }

  const morning = { since: '', 'since.other': '2026-07-02T08:00', until: '2026-07-02T12:00' };
  const shown = await counted(morning);
  assert.equal(shown.count, 2);
  assert.deepEqual(await faultsIn(shown.page), []);
  const [row] = await sql<{ recoveries: number }[]>`select count(*) as recoveries from recovery`;
  assert.equal(row?.recoveries, 0, 'counting sends nothing');
  const again = formAt(shown.page, recover);
  assert.deepEqual(
    [again.get('since'), again.get('since.other')],
    ['', morning['since.other']],
    'what was typed is chosen and shown',
  );
  assert.equal(again.get('until'), morning.until);
  const begun = await owner.send(recover, again);
  assert.equal(begun.status, 303, textOf(await begun.text()));
  await until(
    () => sql<{ state: string; recovered: number }[]>`select state, events_recovered as recovered from recovery`,
    ([one]) => one?.state === 'finished',
  );
  await until(
    async () => arrived.length,
    (count) => count >= 2,
  );
  assert.deepEqual(arrived.toSorted(), ['3', '4']);
});

test('a search of deliveries reads a typed time in the zone that it names, and shows it again', async () => {
  const owner = await signedIn();
  const path = `/stores/${alpha}/statuses`;
  const after = '2026-07-02T13:59:30';
  const field = 'date_created:greaterthan';
  const sent = await owner.show(`${path}?${new URLSearchParams({ _search: '1', [field]: after }).toString()}`);
  assert.equal(sent.status, 303);
  const page = await (await owner.show(sent.headers.get('location') ?? '')).text();
  assert.match(page, new RegExp(`after \\(${ZONE}\\)</label>\\s*<input type="datetime-local"[^>]* value="${after}"`));
  assert.match(textOf(page), /Date created after 2 July 2026 at 13:59 UTC\+12/);
});
