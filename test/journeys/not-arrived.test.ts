/** What did not arrive: random histories of a webhook, whose health is compared with a model of what its endpoint got. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as assertAll, asyncProperty, array, constantFrom, integer, record } from 'fast-check';
import { amountOf } from '../setup/amount.ts';
import { runOut, startRecoveryFixture } from '../setup/recovery-fixture.ts';

const fixture = await startRecoveryFixture();
const { sql, storeId, ask, addWebhook, change, count, publish, recover, finish, ownerOf, clock } = fixture;
const owner = ownerOf();

/** An event as its publisher sees it: whether it arrived once, its deliveries, and the state of the latest. */
type Sent = { event: number; hasArrived: boolean; deliveries: number[]; state: 'pending' | 'failed' | 'successful' };

const STEPS = ['publish', 'arrive', 'fail', 'resend', 'recover', 'disable', 'enable', 'subscribe', 'sweep'] as const;
const histories = array(record({ step: constantFrom(...STEPS), at: integer({ min: 0, max: 9 }) }), { maxLength: 14 });

const historyOf = (...steps: (typeof STEPS)[number][]) => steps.map((step) => ({ step, at: 1 }));
/** An event that arrived, and that a resend, and a resend of the delivery that this made, did not send again. */
const RESENT_IN_VAIN = historyOf('publish', 'arrive', 'resend', 'fail', 'resend', 'fail');
/** An event that waited while its webhook was disabled, and arrived by a resend before the worker ended the former delivery. */
const RESENT_BEFORE_ITS_END = historyOf('publish', 'disable', 'enable', 'resend', 'arrive');

async function deliveryOf(webhook: number, event: number): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    select id from delivery where webhook_id = ${webhook} and event_id = ${event} order by id desc limit 1`;
  assert.ok(row, `event ${event} has no pending delivery`);
  return row.id;
}

/** Ends the pending deliveries of older epochs, as the worker of the shard does. */
const sweep = (webhook: number) => sql`
  with gone as (
    delete from delivery d using webhook w
    where d.webhook_id = ${webhook} and w.id = d.webhook_id and d.epoch < w.epoch
    returning d.shard, d.id, d.store_id, d.webhook_id, d.event_id
  )
  insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
  select shard, id, store_id, webhook_id, event_id, 'failed', 0, now() from gone`;

test('the health counts the events that did not arrive, whatever happened to their deliveries', async () => {
  await assertAll(
    asyncProperty(histories, async (steps) => {
      const webhook = await addWebhook();
      const sent: Sent[] = [];
      let isActive = true;
      let isSubscribed = true;
      const since = clock.now();
      const end = async (at: number, state: 'successful' | 'failed') => {
        const waiting = sent.filter((one) => one.state === 'pending');
        const one = waiting[at % Math.max(1, waiting.length)];
        if (one === undefined) return;
        await finish(webhook, one.event, state);
        Object.assign(one, { state, hasArrived: one.hasArrived || state === 'successful' });
      };
      const apply = {
        publish: async () => {
          const event = await publish();
          if (isActive && isSubscribed)
            sent.push({ event, hasArrived: false, deliveries: [await deliveryOf(webhook, event)], state: 'pending' });
        },
        arrive: (at: number) => end(at, 'successful'),
        fail: (at: number) => end(at, 'failed'),
        resend: async (at: number) => {
          const one = sent[at % Math.max(1, sent.length)];
          if (one === undefined) return;
          // Any of its deliveries can be sent again, not only the latest.
          const path = `/webhooks/${webhook}/statuses/${one.deliveries[at % one.deliveries.length]}/resend`;
          const { status } = await ask('POST', path, { body: {} });
          assert.equal(status, isActive && one.state !== 'pending' ? 202 : 409, JSON.stringify(one));
          if (status !== 202) return;
          one.deliveries.push(await deliveryOf(webhook, one.event));
          one.state = 'pending';
        },
        recover: async () => {
          if (!isActive) return;
          const counted = await count(webhook, since, true);
          const { location } = await recover(webhook, since, { only_failed: '1' });
          await runOut(owner);
          const { body } = await ask('GET', location);
          assert.deepEqual(counted, { count: body['events_recovered'], isMore: false }, JSON.stringify(sent));
          if (!isSubscribed) return;
          for (const one of sent)
            if (one.state === 'failed' && !one.hasArrived) {
              one.deliveries.push(await deliveryOf(webhook, one.event));
              one.state = 'pending';
            }
        },
        disable: async () => {
          if (isActive) await change(webhook, { is_active: '0' });
          isActive = false;
          for (const one of sent) if (one.state === 'pending') one.state = 'failed';
        },
        enable: async () => {
          if (!isActive) await change(webhook, { is_active: '1' });
          isActive = true;
        },
        subscribe: async () => {
          isSubscribed = !isSubscribed;
          const events = [isSubscribed ? 'transaction/created' : 'transaction/voided'];
          await change(webhook, { event_resource: null, events });
        },
        sweep: async () => void (await sweep(webhook)),
      };
      for (const { step, at } of steps) await apply[step](at);
      await sweep(webhook);
      const missing = sent.filter(({ state, hasArrived }) => isSubscribed && state === 'failed' && !hasArrived);
      const { body } = await ask('GET', `/webhooks/${webhook}/health`);
      assert.equal(body['not_arrived'], missing.length, JSON.stringify(sent));
      assert.equal(body['not_arrived_since'] === null, missing.length === 0);
      // What counts them leads to a list of them and no others.
      for (const path of [`/webhooks/${webhook}/statuses?`, `/stores/${storeId}/statuses?webhook_id=${webhook}&`]) {
        const found = await ask('GET', `${path}not_arrived=1&limit=100`);
        const { 'svc:statuses': items } = found.body['_embedded'] as Record<string, { id: number }[]>;
        const ids = items?.map(({ id }) => id);
        const latest = missing.map(({ deliveries }) => deliveries.at(-1));
        assert.deepEqual(new Set(ids), new Set(latest), JSON.stringify(sent));
        assert.equal(Number(found.body['total_items']), missing.length);
      }
      const listed = await ask('GET', `/webhooks/${webhook}/statuses?status=failed&resent_as:isnull=1&limit=100`);
      const events = sent.filter(({ state }) => state === 'failed').length;
      assert.equal(Number(listed.body['total_items']), events, JSON.stringify(sent));
      assert.equal((await ask('DELETE', `/webhooks/${webhook}`)).status, 204);
    }),
    { examples: [[RESENT_IN_VAIN], [RESENT_BEFORE_ITS_END]], numRuns: amountOf('not-arrived', { all: 200, part: 20 }) },
  );
});
