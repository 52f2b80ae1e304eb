/** Which events a recovery sends, and when it may begin: the real API, and rounds of its owners one by one. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { createEventPurges } from '#events/event-purges-sql.ts';
import { moveLoaded, openRecoveries, writePage } from '#events/replay/recoveries-sql.ts';
import { insertResend } from '#events/replay/replay-sql.ts';
import { shardOf } from '#core/ids.ts';
import { listen } from '#db/pool.ts';
import { NEVER_QUIET, standingClock } from '../setup/clock.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { runOut as runOutOf, SETTINGS, startRecoveryFixture } from '../setup/recovery-fixture.ts';
import { until } from '../setup/until.ts';

const fixture = await startRecoveryFixture();
const { sql, clock, ask, publish, refeed, addWebhook, change, stateOf, pending, finish, holdPublish, ownerOf } =
  fixture;
const owner = ownerOf();
const runOut = (one = owner): Promise<void> => runOutOf(one);

/** Later than the events of all other tests. */
let begun = clock.now();
beforeEach(() => void (begun = clock.now()));
const recover = (webhook: number) => fixture.recover(webhook, begun);

async function turnOffAndOn(webhook: number): Promise<void> {
  await change(webhook, { is_active: '0' });
  await change(webhook, { is_active: '1' });
}

test('failed deliveries, those lost with a disable and those published meanwhile are sent again, once', async () => {
  const webhook = await addWebhook();
  const [arrived, failed, lost] = [await publish(), await publish(), await publish()];
  await finish(webhook, arrived, 'successful');
  await finish(webhook, failed, 'failed');
  await change(webhook, { is_active: '0' });
  const meanwhile = await publish();
  await publish('transaction/modified');
  await publish('customer/created');
  await change(webhook, { is_active: '1' });
  const waits = await publish();
  const asked = await recover(webhook);
  assert.equal(asked.body['state'], 'waiting');
  await runOut();
  assert.deepEqual(await pending(webhook), [failed, lost, meanwhile, waits]);
  const { body } = await ask('GET', asked.location);
  assert.deepEqual([body['state'], body['events_recovered']], ['finished', 3]);
  assert.equal(body['events_seen'], body['events_total']);
  assert.ok(Number(body['events_total']) >= 7);
  assert.notEqual(body['date_ended'], null);

  await recover(webhook);
  await runOut();
  assert.deepEqual(await pending(webhook), [failed, lost, meanwhile, waits]);
});

test('a count of what would be sent leaves out what the filter excludes, and ends at 1,000 events', async () => {
  const webhook = await addWebhook({ filter: 'status=paid', is_active: '0' });
  await change(webhook, { is_active: '1' });
  const first = await publish();
  let copied = 0;
  const copy = async (status: string, copies: number) => {
    const body = JSON.stringify({ id: 1, status });
    await sql`
      insert into event select (jsonb_populate_record(e, jsonb_build_object('id', e.id + 256 * (1000000 + n), 'body', ${body}::text))).*
      from event e, generate_series(${copied}::int + 1, ${copied + copies}::int) as n where e.id = ${first}`;
    copied += copies;
  };
  const counted = () => fixture.count(webhook, begun, false);
  assert.deepEqual(await counted(), { count: 0, isMore: false });
  await copy('paid', 998);
  assert.deepEqual(await counted(), { count: 998, isMore: false });
  await copy('open', 2);
  assert.deepEqual(await counted(), { count: 998, isMore: true });
  await sql`delete from event where id > ${first}`;
  assert.equal((await ask('DELETE', `/webhooks/${webhook}`)).status, 204);
});

test('a delivery of an earlier recovery is not sent again, on whichever day it was', async () => {
  const webhook = await addWebhook({ is_active: '0' });
  const missed = await publish();
  await change(webhook, { is_active: '1' });
  await recover(webhook);
  // The owner processes it a day later.
  clock.advance(86_400_000);
  await runOut();
  clock.advance(-86_400_000);
  await finish(webhook, missed, 'successful');
  await recover(webhook);
  await runOut();
  assert.deepEqual(await pending(webhook), []);
});

test('a delivery that arrived because it was resent on a later day is not sent once more', async () => {
  const webhook = await addWebhook();
  const failed = await publish();
  await finish(webhook, failed, 'failed');
  const tomorrow = new Date(clock.now().getTime() + 86_400_000);
  await insertResend(sql, {
    shard: shardOf(webhook),
    webhookId: webhook,
    eventId: failed,
    deliveryId: 1,
    now: tomorrow,
  });
  assert.equal((await finish(webhook, failed, 'successful')).count, 1);
  await recover(webhook);
  await runOut();
  assert.deepEqual(await pending(webhook), []);
});

test('a resend that failed or was lost with a disable is sent again to its own webhook, and none that arrived', async () => {
  const [webhook, other] = [await addWebhook(), await addWebhook()];
  const [arrived, died] = [await refeed([webhook]), await refeed([webhook])];
  const failed = await refeed([webhook]);
  await finish(webhook, arrived, 'successful');
  await finish(webhook, failed, 'failed');
  for (const each of [webhook, other]) await turnOffAndOn(each);
  const waits = await refeed([webhook]);
  for (const each of [webhook, other]) await recover(each);
  await runOut();
  assert.deepEqual(await pending(webhook), [died, failed, waits]);
  assert.deepEqual(await pending(other), []);
});

test('a resend does not go to a webhook that by now watches another resource', async () => {
  const webhook = await addWebhook();
  await refeed([webhook]);
  await change(webhook, { is_active: '0' });
  await change(webhook, { is_active: '1', event_resource: 'customer', events: ['customer/created'] });
  await recover(webhook);
  await runOut();
  assert.deepEqual(await pending(webhook), []);
});

test('events before the start of the recovery, and erased ones, are left out', async () => {
  const webhook = await addWebhook({ is_active: '0' });
  const [early, erased, kept] = [await publish(), await publish(), await publish()];
  await sql`update event set date_created = ${begun}::timestamptz - interval '1 ms' where id = ${early}`;
  await sql`update event set body = '' where id = ${erased}`;
  await change(webhook, { is_active: '1' });
  await recover(webhook);
  await runOut();
  assert.deepEqual(await pending(webhook), [kept]);
});

test('it begins when publishes that started before the enable have ended, and includes their events', async () => {
  const webhook = await addWebhook({ is_active: '0' });
  const held = await holdPublish('halcyon 7');
  await change(webhook, { is_active: '1' });
  const knows = await publish();
  const asked = await recover(webhook);
  for (let rounds = 0; rounds < 3; rounds += 1) assert.equal(await owner.round(), 1);
  assert.equal(await stateOf(asked), 'waiting');
  await held.commit();
  await runOut();
  assert.deepEqual(
    await pending(webhook),
    [knows, held.eventId].toSorted((a, b) => a - b),
  );
});

test('it waits neither for later transactions nor for those of other programs', async () => {
  const webhook = await addWebhook({ is_active: '0' });
  const missed = await publish();
  const dump = await holdPublish('pg_dump');
  await change(webhook, { is_active: '1' });
  const asked = await recover(webhook);
  const later = await holdPublish('halcyon 8');
  await runOut();
  assert.deepEqual([await stateOf(asked), await pending(webhook)], ['finished', [missed]]);
  await Promise.all([dump.commit(), later.commit()]);
  // It knew that the webhook is enabled.
  assert.ok((await pending(webhook)).includes(later.eventId));
});

test('of two owners that write the same page one is rejected', async () => {
  const webhook = await addWebhook({ is_active: '0' });
  const missed = [await publish(), await publish()];
  await change(webhook, { is_active: '1' });
  const asked = await recover(webhook);
  await owner.round();
  // The other one has read the row, and waits for it, when the first commits.
  const other = ownerOf();
  let otherRound: Promise<number> | undefined;
  const one = ownerOf({
    announce: async () => {
      otherRound = other.round();
      await until(
        () => waitingForLocks(sql),
        (count) => count === 1,
      );
    },
  });
  await one.round();
  await otherRound;
  assert.deepEqual(await pending(webhook), missed);
  await runOut();
  assert.equal((await ask('GET', asked.location)).body['events_recovered'], 2);
});

test('while a webhook has enough pending deliveries nothing is added for it, and other recoveries have their turns', async () => {
  const [busy, idle] = [await addWebhook({ is_active: '0' }), await addWebhook({ is_active: '0' })];
  const missed = [await publish(), await publish()];
  for (const webhook of [busy, idle]) await change(webhook, { is_active: '1' });
  const live = [await publish(), await publish()];
  for (const event of live) await finish(idle, event, 'successful');
  const asked = [await recover(busy), await recover(idle)];
  const one = ownerOf({ settings: { ...SETTINGS, dueDeliveriesMax: 3, pageDeliveriesMin: 2 } });
  for (let rounds = 0; rounds < 4; rounds += 1) await one.round();
  assert.deepEqual(await Promise.all(asked.map(stateOf)), ['running', 'finished']);
  assert.deepEqual([await pending(busy), await pending(idle)], [live, missed]);
  for (const event of live) await finish(busy, event, 'successful');
  await runOut(one);
  assert.deepEqual(await pending(busy), missed);
});

test('a disable stops a recovery, a cancel is final, and after an enable another one can be requested', async () => {
  const webhook = await addWebhook({ is_active: '0' });
  const missed = await publish();
  await change(webhook, { is_active: '1' });
  const first = await recover(webhook);
  await turnOffAndOn(webhook);
  assert.equal(await stateOf(first), 'stopped');
  const second = await recover(webhook);
  const third = await recover(await addWebhook());
  await ask('POST', `${third.location}/cancel`);
  await runOut();
  const states = await Promise.all([first, second, third].map(stateOf));
  assert.deepEqual(states, ['stopped', 'finished', 'cancelled']);
  assert.deepEqual(await pending(webhook), [missed]);

  await finish(webhook, missed, 'failed');
  const last = await recover(webhook);
  await owner.round();
  await change(webhook, { is_active: '0' });
  await runOut();
  assert.deepEqual([await stateOf(last), await pending(webhook)], ['stopped', []]);

  await change(webhook, { is_active: '1' });
  const unprocessed = await recover(webhook);
  await owner.round();
  // Disabled and enabled again before its owner looks.
  await turnOffAndOn(webhook);
  await runOut();
  assert.deepEqual([await stateOf(unprocessed), await pending(webhook)], ['stopped', []]);
});

test('a finished recovery is kept as long as the deliveries it created, and a day more', async () => {
  const count = async (): Promise<number> => (await sql`select from recovery where state = 'finished'`).length;
  const there = await count();
  assert.ok(there > 0);
  const [, purge] = createEventPurges({ sql, retentionDays: 30 });
  const in30Days = new Date(Date.now() + 30 * 86_400_000);
  await purge?.purge(100, in30Days);
  assert.equal(await count(), there);
  await purge?.purge(100, new Date(in30Days.getTime() + 2 * 86_400_000));
  assert.equal(await count(), 0);
});

test('a recovery of a part sends the events before its end alone, or those of one kind', async () => {
  const webhook = await addWebhook({ is_active: '0' });
  const [early, late] = [await publish(), await publish()];
  const end = new Date(begun.getTime() + 3_600_000);
  await sql`update event set date_created = ${end} where id = ${late}`;
  await change(webhook, { is_active: '1' });
  const since = begun.toISOString();
  const asked = await ask('POST', `/webhooks/${webhook}/recover`, { body: { since, until: end.toISOString() } });
  assert.equal(asked.status, 202, JSON.stringify(asked.body));
  assert.deepEqual(
    [asked.body['event'], Date.parse(String(asked.body['until']).replace('+0000', 'Z'))],
    [null, Math.floor(end.getTime() / 1_000) * 1_000],
  );
  await runOut();
  assert.deepEqual(await pending(webhook), [early]);

  const kinds = await addWebhook({ is_active: '0', events: ['transaction/created', 'transaction/modified'] });
  const [, modified] = [await publish(), await publish('transaction/modified')];
  await change(kinds, { is_active: '1' });
  const event = 'transaction/modified';
  assert.equal((await ask('POST', `/webhooks/${kinds}/recover`, { body: { since, event } })).status, 202);
  await runOut();
  assert.deepEqual(await pending(kinds), [modified]);
});

test('a recovery of a resource sends its events alone', async () => {
  const webhook = await addWebhook({ is_active: '0' });
  const [first] = [await publish(), await publish()];
  await change(webhook, { is_active: '1' });
  const [{ resource } = { resource: '' }] = await sql<{ resource: string }[]>`
    select resource_id as resource from event where id = ${first}`;
  const body = { since: begun.toISOString(), resource_id: resource };
  const asked = await ask('POST', `/webhooks/${webhook}/recover`, { body });
  assert.deepEqual([asked.status, asked.body['resource_id']], [202, resource]);
  await runOut();
  assert.deepEqual(await pending(webhook), [first]);
});

test('a recovery of failed deliveries leaves out events without one, and may begin before retention', async () => {
  const webhook = await addWebhook();
  const [failed, arrived, lost] = [await publish(), await publish(), await publish()];
  await finish(webhook, failed, 'failed');
  await finish(webhook, arrived, 'successful');
  await change(webhook, { is_active: '0' });
  const meanwhile = await publish();
  await change(webhook, { is_active: '1' });
  const asked = await ask('POST', `/webhooks/${webhook}/recover`, { body: { since: '2020-01-01', only_failed: '1' } });
  assert.deepEqual([asked.status, asked.body['only_failed']], [202, '1']);
  await runOut();
  const sent = await pending(webhook);
  assert.deepEqual(
    [sent.includes(failed), sent.includes(lost), sent.includes(arrived), sent.includes(meanwhile)],
    [true, true, false, false],
  );
});

test('a recovery of a response sends events whose last response to a failed delivery had it, and none without an attempt', async () => {
  const webhook = await addWebhook();
  const events = [await publish(), await publish(), await publish(), await publish(), await publish()];
  const [one = 0, other = 0, arrived = 0, swept = 0] = events;
  const respond = (event: number, code: number, text: string) => sql`
    update delivery_done set attempts = 1, date_started = now(), duration_ms = 1, outcome = 'refused', response_code = ${code},
      response_body = ${text}
    where webhook_id = ${webhook} and event_id = ${event}`;
  for (const event of events) await finish(webhook, event, event === arrived ? 'successful' : 'failed');
  await respond(one, 500, 'Out of stock');
  await respond(other, 404, 'No such order');
  await respond(arrived, 500, 'Out of stock');
  // A delivery that ended with its webhook has its last attempt among the others.
  await sql`update delivery_done set attempts = 2 where webhook_id = ${webhook} and event_id = ${swept}`;
  await sql`
    insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome, response_code, response_body)
    select shard, id, n, store_id, webhook_id, event_id, now(), 1, 'refused', case n when 2 then 500 else 404 end,
      case n when 2 then 'stock is low' else 'no order' end
    from delivery_done, generate_series(1, 2) n where webhook_id = ${webhook} and event_id = ${swept}`;
  const since = begun.toISOString();
  const recoverPart = async (part: Record<string, unknown>) => {
    const asked = await ask('POST', `/webhooks/${webhook}/recover`, { body: { since, ...part } });
    assert.equal(asked.status, 202, JSON.stringify(asked.body));
    await runOut();
    const found = await pending(webhook);
    await sql`delete from delivery where webhook_id = ${webhook}`;
    return found;
  };
  assert.deepEqual(await recoverPart({ response_code: 500 }), [one, swept]);
  assert.deepEqual(await recoverPart({ response_code: '404', response_body: '*order*' }), [other]);
  assert.deepEqual(await recoverPart({ response_body: '*STOCK*' }), [one, swept]);
  assert.deepEqual(await recoverPart({ response_body: 'stock' }), []);
  assert.deepEqual(await recoverPart({ response_body: 'No such order' }), [other]);
  assert.deepEqual(await recoverPart({ response_body: 'no such order' }), [], 'as in a search');
});

test('a recovery of an event that its webhook does not subscribe to any more sends nothing', async () => {
  const webhook = await addWebhook({ is_active: '0', events: ['transaction/created', 'transaction/modified'] });
  await publish('transaction/modified');
  await change(webhook, { is_active: '1' });
  const body = { since: begun.toISOString(), event: 'transaction/modified' };
  assert.equal((await ask('POST', `/webhooks/${webhook}/recover`, { body })).status, 202);
  await change(webhook, { events: ['transaction/created'] });
  await runOut();
  assert.deepEqual(await pending(webhook), []);
});

test('a page whose events were compared with an earlier filter is not written', async () => {
  const webhook = await addWebhook({ is_active: '0', filter: 'id:greaterthan=0' });
  const missed = await publish();
  await change(webhook, { is_active: '1' });
  await recover(webhook);
  await owner.round();
  const shard = shardOf(webhook);
  const read = async () => {
    const open = await openRecoveries(sql, [shard], { shard: -1, webhookId: 0 }, 100);
    const own = open.find(({ webhookId }) => webhookId === webhook);
    assert.ok(own !== undefined);
    return own;
  };
  const earlier = await read();
  await change(webhook, { filter: 'id:greaterthan=1' });
  const page = { from: earlier.afterEventId, to: missed, seen: 1, eventIds: [missed], failed: [] };
  assert.deepEqual(await writePage(sql, earlier, page, clock.now()), { isMoved: false, deliveryIds: [] });
  assert.equal((await writePage(sql, await read(), page, clock.now())).isMoved, true);
  await runOut();
  assert.deepEqual(await pending(webhook), [missed]);
});

test('an end before the start, no date and a foreign event are refused, with the field at fault', async () => {
  const webhook = await addWebhook();
  const since = begun.toISOString();
  for (const [field, value] of [
    ['until', since],
    ['until', 'tomorrow'],
    ['event', 'customer/created'],
    ['event', 'no/event'],
  ] as const) {
    const { status, body } = await ask('POST', `/webhooks/${webhook}/recover`, { body: { since, [field]: value } });
    const [fault] = (body['_embedded'] as Record<string, { field?: string }[]>)['svc:errors'] ?? [];
    assert.deepEqual([status, fault?.field], [400, field], value);
  }
});

/** Returns the resources whose events have a pending delivery to the webhook, with the action of the event. */
async function resourcesOf(webhook: number): Promise<string[]> {
  const rows = await sql<{ resource: string }[]>`
    select e.action || ' ' || e.resource_id as resource from delivery d
    join event e on e.shard = d.shard and e.id = d.event_id
    where d.webhook_id = ${webhook} order by 1`;
  return rows.map(({ resource }) => resource);
}

const LOADED_FROM = new Date('2020-01-01T00:00:00Z');

test('a recovery of what was loaded sends the resources of the period that no event has published since, a page at a time', async () => {
  const webhook = await addWebhook({ filter: 'id:not=10002' });
  await fixture.load([
    { id: 9001, date_modified: '2019-12-31T09:00:00Z' },
    ...[9002, 9010, 9011, 10_001, 10_002].map((id) => ({ id, date_modified: '2020-03-01T09:00:00Z' })),
  ]);
  await publish('transaction/modified', 9002);
  const asked = await fixture.recover(webhook, LOADED_FROM, { loaded: '1' });
  assert.equal(asked.body['loaded'], '1');
  const slow = ownerOf({ settings: { ...SETTINGS, dueDeliveriesMax: 2 } });
  await slow.round();
  const [first] = await openRecoveries(sql, [shardOf(webhook)], { shard: -1, webhookId: 0 }, 1);
  for (let rounds = 0; rounds < 4; rounds += 1) await slow.round();
  assert.deepEqual(await resourcesOf(webhook), ['refeed 9010', 'refeed 9011']);
  assert.ok(first);
  assert.equal(await moveLoaded(sql, first, { seen: 1, last: '9001' }, clock.now()), false, 'written twice');
  await runOut();
  assert.deepEqual(await resourcesOf(webhook), ['refeed 10001', 'refeed 9010', 'refeed 9011']);
  const { body } = await ask('GET', asked.location);
  assert.deepEqual([body['state'], body['events_recovered']], ['finished', 3]);
  assert.equal(body['events_seen'], body['events_total']);
  const refeeds = await sql`select from event where resource_id in ('9001', '9002', '10002') and action = 'refeed'`;
  assert.equal(refeeds.length, 0, 'an event that no webhook receives');
});

test('a recovery of what was loaded may begin at any date, and takes nothing that is about events', async () => {
  const webhook = await addWebhook();
  const path = `/webhooks/${webhook}/recover`;
  const ofEvents = { event: 'transaction/created', only_failed: '1', response_code: 500, response_body: 'x' };
  const refused = await ask('POST', path, { body: { since: '2001-01-01', loaded: '1', ...ofEvents } });
  assert.equal(refused.status, 400);
  const fields = /"field":"\w+"/g;
  assert.deepEqual(
    JSON.stringify(refused.body).match(fields),
    Object.keys(ofEvents).map((name) => `"field":"${name}"`),
  );
  const last = await fixture.recover(webhook, new Date('2001-01-01T00:00:00Z'), { loaded: '1', resource_id: '9002' });
  await runOut();
  assert.equal(await fixture.stateOf(last), 'finished');
});

test('without recoveries the table is read after a change, and otherwise every thirty seconds', async () => {
  let changes = 0;
  const standing = standingClock();
  const idle = ownerOf({ changes: () => changes, clock: { ...standing, now: clock.now } });
  await runOut();
  assert.equal(await idle.roundIfChanged(), 0);
  const announced = await recover(await addWebhook());
  standing.advance(29_999);
  await idle.roundIfChanged();
  assert.equal(await stateOf(announced), 'waiting', 'not read');
  changes += 1;
  while ((await idle.roundIfChanged()) > 0);
  assert.equal(await stateOf(announced), 'finished');
  const missed = await recover(await addWebhook());
  await idle.roundIfChanged();
  assert.equal(await stateOf(missed), 'waiting', 'not read');
  standing.advance(30_000);
  while ((await idle.roundIfChanged()) > 0);
  assert.equal(await stateOf(missed), 'finished');
});

test('a recovery is announced to the owner of its shard', async () => {
  const webhook = await addWebhook();
  const announced: string[] = [];
  const listener = await listen(
    sql,
    { halcyon_webhook: (payload) => announced.push(payload) },
    { onMissed: () => {}, silenceMs: 60_000, pace: NEVER_QUIET },
  );
  await recover(webhook);
  await until(
    async () => announced,
    (payloads) => payloads.includes(`${shardOf(webhook)}:${webhook}`),
  );
  await listener.stop();
  await runOut();
});
