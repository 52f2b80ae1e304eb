/**
 * Workers are frozen (SIGSTOP) past their lease while they send, and resumed when others have their shards: deliveries in
 * flight come twice, and the resumed workers start and write nothing for shards that they no longer own.
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

/** Returns the number of shards of a worker, by the leases. */
async function shardsOf(life: string): Promise<number> {
  const [row] = await sql<{ shards: number }[]>`
    select count(*) as shards from shard_lease l
    where l.owner in (select owner from audit_lease a where a.session = ${life})`;
  return row?.shards ?? 0;
}

test('workers that are frozen past their lease neither send nor record deliveries of shards that others have taken', async (t) => {
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
  assert.ok(ledger.duplicates().length > 0, 'deliveries that a frozen worker had sent are sent by the next owner too');
});
