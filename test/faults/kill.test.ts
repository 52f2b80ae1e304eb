/**
 * `kill -9` of the whole server, with the PostgreSQL it embeds, while more than a thousand deliveries are in flight to a
 * receiver that takes 200 ms: each accepted event arrives, and duplicates are counted. A fleet of workers, and
 * many more kills: worker-kill.test.ts.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { DemoFile } from '../../src/cli/demo.ts';
import { placeForFixture, startFixture, type Fixture } from '../setup/fixture.ts';
import { startReceiver } from '../setup/receiver.ts';
import { postmasterOf } from '../setup/embedded-process.ts';
import { until } from '../setup/until.ts';
import { SEED, seeded } from '../setup/seed.ts';

const random = seeded(SEED);

const KILLS = 5;
const WEBHOOKS = 20;
const EVENTS_AT_ONCE = 100;
const UNDER_WAY = 1_000;
const ANSWER_MS = 200;
const PATIENCE_MS = 120_000;
/** A delivery that arrived longer than this before a kill was answered and recorded by then. */
const UNRECORDED_MS = ANSWER_MS + 500;

const headers = (token: string) => ({
  'SERVICE-API-VERSION': '1',
  Authorization: `Bearer ${token}`,
  'Content-Type': 'application/json',
});

async function platformToken({ base_url, platform }: DemoFile): Promise<string> {
  const body = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform });
  const response = await fetch(`${base_url}/token`, { method: 'POST', body });
  return ((await response.json()) as { access_token: string }).access_token;
}

async function addWebhooks({ base_url, store_id, access_token }: DemoFile, url: string): Promise<void> {
  for (let n = 0; n < WEBHOOKS; n += 1) {
    const body = {
      name: `w${n}`,
      format: 'json',
      encryption_key: 'key',
      url: `${url}/${n}`,
      event_resource: 'customer',
    };
    const response = await fetch(`${base_url}/stores/${store_id}/webhooks`, {
      method: 'POST',
      headers: headers(access_token),
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 201, await response.text());
  }
}

/** Publishes one array; returns the accepted ids, none if the server was killed before it answered. */
async function publish({ base_url, store_id }: DemoFile, token: string, ids: readonly number[]): Promise<number[]> {
  const body = JSON.stringify(ids.map((id) => ({ event: 'customer/created', resource: { id } })));
  try {
    const address = `${base_url}/stores/${store_id}/events`;
    const response = await fetch(address, { method: 'POST', headers: headers(token), body });
    return response.status === 200 ? [...ids] : [];
  } catch {
    return [];
  }
}

test('five kills of the whole server lose no accepted event', async (t: TestContext) => {
  const place = await placeForFixture({ DELIVERY_LEASE_MS: '600000' });
  t.after(() => place.remove());
  const receiver = await startReceiver(t);
  receiver.answer((_got, response) => void setTimeout(() => response.writeHead(200).end(), ANSWER_MS));
  let fixture: Fixture = await startFixture(place);
  t.after(() => fixture.end('SIGKILL'));
  await addWebhooks(fixture.demo, receiver.url);
  const token = await platformToken(fixture.demo);

  const ledger = () => {
    const seen = new Map<string, number>();
    for (const { path, body } of receiver.got) {
      const key = `${path} ${(JSON.parse(body.toString()) as { id: number }).id}`;
      seen.set(key, (seen.get(key) ?? 0) + 1);
    }
    return seen;
  };
  const accepted: number[] = [];
  const kills: { underWay: number; inFlight: number; unrecorded: number }[] = [];
  let next = 1;
  const nextIds = () => Array.from({ length: EVENTS_AT_ONCE }, () => next++);
  const underWay = () => accepted.length * WEBHOOKS - ledger().size;
  for (let kill = 0; kill < KILLS; kill += 1) {
    while (underWay() < UNDER_WAY + 500) accepted.push(...(await publish(fixture.demo, token, nextIds())));
    // The moment differs each time: after 1 to 150 of this life's deliveries arrived, with some in flight.
    const moment = receiver.got.length + 1 + Math.floor(random() * 150);
    await until(
      async () => receiver.got.length,
      (count) => count >= moment && receiver.open() > 0,
      PATIENCE_MS,
    );
    const dying = publish(fixture.demo, token, nextIds());
    const since = performance.now() - UNRECORDED_MS;
    const unrecorded = receiver.got.filter(({ atMs }) => atMs > since).length;
    kills.push({ underWay: underWay(), inFlight: receiver.open(), unrecorded });
    await fixture.end('SIGKILL');
    accepted.push(...(await dying));
    fixture = await startFixture(place);
  }

  const missingFrom = (seen: ReadonlyMap<string, number>) =>
    accepted.flatMap((id) => Array.from({ length: WEBHOOKS }, (_, n) => `/${n} ${id}`)).filter((key) => !seen.has(key));
  const expected = accepted.length * WEBHOOKS;
  await until(
    async () => receiver.got.length,
    (count) => count >= expected,
    PATIENCE_MS,
  );
  await until(
    async () => missingFrom(ledger()).length,
    (missing) => missing === 0,
    PATIENCE_MS,
  );

  const duplicates = [...ledger().values()].reduce((sum, count) => sum + count - 1, 0);
  t.diagnostic(`accepted ${accepted.length} events × ${WEBHOOKS} webhooks; received ${receiver.got.length}`);
  const bound = kills.reduce((sum, { unrecorded }) => sum + unrecorded, 0);
  t.diagnostic(`under way at each kill: ${kills.map((kill) => kill.underWay).join(' ')}`);
  t.diagnostic(`in flight at each kill: ${kills.map((kill) => kill.inFlight).join(' ')}`);
  t.diagnostic(`duplicates in all: ${duplicates}, at most ${bound} were in flight or unrecorded`);
  assert.ok(kills.every((kill) => kill.underWay >= UNDER_WAY));
  assert.ok(
    kills.filter(({ inFlight }) => inFlight > 0).length > KILLS / 2,
    'most kills happened with deliveries in flight',
  );
  assert.ok(duplicates > 0, 'a kill between the send and the record must show as a duplicate somewhere');
  assert.ok(duplicates <= bound, 'only deliveries in flight or unrecorded may come twice');
  assert.equal(await fixture.end('SIGTERM'), 0);
});

test('kills of the embedded PostgreSQL end neither the server nor an accepted event', async (t: TestContext) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const receiver = await startReceiver(t);
  const fixture = await startFixture(place);
  t.after(() => fixture.end('SIGKILL'));
  await addWebhooks(fixture.demo, receiver.url);
  const token = await platformToken(fixture.demo);
  const { base_url, store_id } = fixture.demo;
  const accepted: number[] = [];
  const refusals: string[] = [];
  let next = 1;
  const publishOne = async (): Promise<number> => {
    const id = next++;
    const body = JSON.stringify({ event: 'customer/created', resource: { id } });
    const response = await fetch(`${base_url}/stores/${store_id}/events`, {
      method: 'POST',
      headers: headers(token),
      body,
    });
    await response.arrayBuffer();
    if (response.status === 201) accepted.push(id);
    else
      refusals.push(
        `${response.status} ${response.headers.get('retry-after') === null ? 'without' : 'with'} Retry-After`,
      );
    return response.status;
  };
  for (let kill = 0; kill < 3; kill += 1) {
    await until(publishOne, (status) => status === 201, PATIENCE_MS);
    process.kill(await postmasterOf(place.dataDir), 'SIGKILL');
    await Promise.all(Array.from({ length: 20 }, publishOne));
    await until(publishOne, (status) => status === 201, PATIENCE_MS);
  }
  const arrived = () =>
    new Set(receiver.got.map(({ path, body }) => `${path} ${(JSON.parse(body.toString()) as { id: number }).id}`));
  await until(
    async () =>
      accepted
        .flatMap((id) => Array.from({ length: WEBHOOKS }, (_, n) => `/${n} ${id}`))
        .filter((key) => !arrived().has(key)).length,
    (missing) => missing === 0,
    PATIENCE_MS,
  );
  t.diagnostic(`accepted ${accepted.length}; refused ${refusals.length}`);
  assert.deepEqual([...new Set(refusals)], ['503 with Retry-After']);
  assert.equal(await fixture.end('SIGTERM'), 0);
});
