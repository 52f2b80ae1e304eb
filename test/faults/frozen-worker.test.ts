/**
 * Workers are frozen (SIGSTOP) past their lease while they send, and thawed when others have their shards: what they had
 * sent comes twice, and they begin nothing and write nothing for what is not theirs any more.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openFleet } from '../setup/fleet/fleet.ts';
import { until } from '../setup/until.ts';

const WORKERS = 3;
const FREEZES = 7;

const fleet = await openFleet();
const { ledger, sql } = fleet;
await fleet.startPublisher();
const workers = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()));

/** How many shards a life has, by what the leases say. */
async function shardsOf(life: string): Promise<number> {
  const [row] = await sql<{ shards: number }[]>`
    select count(*) as shards from shard_lease l
    where l.owner in (select owner from audit_lease a where a.session = ${life})`;
  return row?.shards ?? 0;
}

test('workers that are frozen past their lease neither send nor record for what others have taken', async (t) => {
  await fleet.startLoad();
  const inFlight: number[] = [];
  for (let freeze = 0; freeze < FREEZES; freeze += 1) {
    const frozen = workers[freeze % WORKERS];
    assert.ok(frozen);
    const { life, signal } = frozen;
    await until(
      async () => ledger.inFlight(life),
      (count) => count > 0,
    );
    inFlight.push(ledger.inFlight(life));
    ledger.fault(life, 'frozen');
    signal('SIGSTOP');
    await until(
      () => shardsOf(life),
      (shards) => shards === 0,
    );
    signal('SIGCONT');
    await until(
      () => shardsOf(life),
      (shards) => shards > 0,
    );
  }
  t.diagnostic(`in flight at each freeze: ${inFlight.join(' ')}`);
  await fleet.settle(t);
  assert.ok(ledger.duplicates().length > 0, 'what a frozen worker had sent is sent by the next owner too');
});
