/**
 * `kill -9` of workers at random, while all of them send and others take over: each accepted event arrives, and
 * duplicates were in flight or unrecorded at a kill.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { amountOf } from '../setup/amount.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import { until } from '../setup/until.ts';
import { SEED } from '../setup/seed.ts';

const KILLS = amountOf('worker-kill', { all: 52, part: 16 });
const WORKERS = 4;
/** A life ends after this many deliveries, or at the latest after its time: another owner may have all there are. */
const DELIVERIES_PER_LIFE = 150;
const LIFE_MS = 5_000;
const IN_FLIGHT_PERCENT = 75;
/** The seed differs in each run; set the printed one here to repeat the moments of a run. */

const moments = fc.sample(fc.noBias(fc.nat(DELIVERIES_PER_LIFE)), { numRuns: KILLS, seed: SEED });
const fleet = await openFleet();
const { ledger } = fleet;
await fleet.startPublisher();

const kills: { inFlight: number }[] = [];

/** One worker after the other in one place, each killed at its moment. */
async function place(): Promise<void> {
  for (let moment = moments.pop(); moment !== undefined; moment = moments.pop()) {
    const { life, end } = await fleet.startWorker();
    const deadline = performance.now() + LIFE_MS;
    const least = moment;
    await until(
      async () => ledger.sentBy(life).length > least,
      (isTime) => isTime || performance.now() > deadline,
      2 * LIFE_MS,
    );
    kills.push({ inFlight: ledger.inFlight(life) });
    ledger.fault(life, 'killed');
    assert.equal(await end('SIGKILL'), 'SIGKILL');
  }
}

test('workers that are killed at random lose no accepted event', async (t) => {
  const since = performance.now();
  await fleet.startLoad();
  await Promise.all(Array.from({ length: WORKERS }, place));
  const seconds = (performance.now() - since) / 1_000;
  const met = kills.filter(({ inFlight }) => inFlight > 0).length;
  t.diagnostic(`${kills.length} kills in ${seconds.toFixed(1)} s, ${met} with deliveries in flight`);
  t.diagnostic(`in flight at each: ${kills.map(({ inFlight }) => inFlight).join(' ')}`);
  await Promise.all([fleet.startWorker(), fleet.startWorker(), fleet.startWorker()]);
  await fleet.settle(t);
  assert.ok(met >= (kills.length * IN_FLIGHT_PERCENT) / 100);
  assert.ok(ledger.duplicates().length > 0, 'a kill between the send and the record shows as a duplicate somewhere');
});
