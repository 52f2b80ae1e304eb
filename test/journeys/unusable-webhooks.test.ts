/** Webhooks whose row cannot be used: deliveries wait, are sent when it can be used again, and end after 72 hours. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const HOUR_MS = 3_600_000;
const FAULTS_AN_HOUR = 120;

type Broken = { encryption_key?: Buffer | null; url?: string | null };

/** The ways in which a row cannot be used, as SQL damages it behind the API. */
const BROKEN = {
  'a key that does not open': { encryption_key: Buffer.from('sealed with a key that is lost') },
  'a url that is no URL': { url: 'no url' },
};

/** A webhook that cannot be used, with a delivery, and a worker that has found it so. */
async function start(broken: Broken) {
  const lines: string[] = [];
  const engine = await startEngine({ log: createLog('error', { write: (line) => void lines.push(line) }) });
  const { sql, clock } = engine;
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url);
  const [sound] = await sql<Broken[]>`select encryption_key, url from webhook where id = ${webhookId}`;
  const set = ({ encryption_key = null, url = null }: Broken) => sql`
    update webhook set encryption_key = coalesce(${encryption_key}, encryption_key), url = coalesce(${url}, url)
    where id = ${webhookId}`;
  const work = async () => {
    const before = lines.length;
    const worker = await engine.startWorker();
    await until(
      async () => lines.length,
      (count) => count > before,
    );
    return worker;
  };
  await set(broken);
  await engine.publish([0]);
  const worker = await work();
  /** Runs the reconciliation that runs every half a minute. */
  const look = (by = worker) => by.webhookChanged({ shard: shardOf(webhookId), webhookId });
  /** Returns the fault counts of the deliveries that are not about to end. */
  const faults = async (): Promise<number[]> => {
    const rows = await sql<{ faults: number }[]>`
      select faults from delivery where faults < ${72 * FAULTS_AN_HOUR} order by event_id`;
    return rows.map((row) => row.faults);
  };
  return {
    ...engine,
    receiver,
    webhookId,
    worker,
    work,
    look,
    faults,
    publish: () => engine.publish([1], worker),
    mend: async () => {
      await set({ ...sound });
      look();
    },
    /** Advances the clock by hours; after each of them the deliveries have this many faults. */
    pass: async (hours: number, expected: (hour: number) => readonly number[]) => {
      for (let hour = 1; hour <= hours; hour += 1) {
        const before = String(await faults());
        clock.advance(HOUR_MS);
        look();
        assert.deepEqual(await until(faults, (found) => String(found) !== before), expected(hour));
      }
    },
  };
}

for (const [what, broken] of Object.entries(BROKEN)) {
  test(`deliveries for ${what} end as internal after 72 hours, and later ones do not`, async () => {
    const { sql, publish, pass, receiver } = await start(broken);
    await pass(70, (hour) => [hour * FAULTS_AN_HOUR]);
    await publish();
    await pass(1, () => [71 * FAULTS_AN_HOUR, FAULTS_AN_HOUR]);
    await pass(1, () => [2 * FAULTS_AN_HOUR]);
    const done = await until(
      () => sql`select d.state, d.attempts, a.outcome from delivery_done d join attempt_log a on a.delivery_id = d.id`,
      ({ length }) => length > 0,
    );
    assert.deepEqual([...done], [{ state: 'failed', attempts: 1, outcome: 'internal' }]);
    assert.equal(receiver.got.length, 0);
  });
}

test('deliveries of a webhook that can be used again are sent at once', async () => {
  const { publish, pass, mend, receiver } = await start(BROKEN['a key that does not open']);
  await publish();
  await pass(71, (hour) => [hour * FAULTS_AN_HOUR, hour * FAULTS_AN_HOUR]);
  await mend();
  await receiver.until(2);
});

test('a worker that starts begins a new hour, so that restarts end no delivery', async () => {
  const { worker, work, clock, faults, look, pass } = await start(BROKEN['a key that does not open']);
  await pass(1, () => [FAULTS_AN_HOUR]);
  await worker.stop();
  for (let n = 0; n < 3; n += 1) {
    const next = await work();
    clock.advance((HOUR_MS * 2) / 3);
    look(next);
    await next.stop();
  }
  const last = await work();
  clock.advance(HOUR_MS);
  look(last);
  const changed = await until(faults, ([count]) => count !== FAULTS_AN_HOUR);
  assert.deepEqual(changed, [2 * FAULTS_AN_HOUR]);
});

test('an hour that passes while the previous one is being counted is counted too', async () => {
  const { sql, webhookId, clock, faults, look } = await start(BROKEN['a key that does not open']);
  await sql.begin(async (transaction) => {
    await transaction`select from shard_lease where shard = ${shardOf(webhookId)} for update`;
    clock.advance(HOUR_MS);
    look();
    await until(
      () => sql`
        select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%update delivery set faults%'`,
      ({ length }) => length > 0,
    );
    clock.advance(HOUR_MS);
  });
  await until(faults, ([count]) => Number(count) >= FAULTS_AN_HOUR);
  look();
  await until(faults, ([count]) => count === 2 * FAULTS_AN_HOUR);
});
