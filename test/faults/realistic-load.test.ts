/**
 * The shipped program under realistic load: a burst after a pause in which PostgreSQL analyzed empty tables, and a backlog after
 * a kill, are delivered at no less than half the rate of a new database. Measured in processor time, so that the machine does not matter.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { amountOf } from '../setup/amount.ts';
import { startRealisticLoad, type Rate } from '../setup/realistic-load.ts';

const EVENTS = amountOf('realistic-load', { all: 10_000, part: 3_000 });
const isPart = EVENTS < 10_000;

test('neither a pause nor a restart makes deliveries twice as expensive as in a new database', async (t) => {
  const run = await startRealisticLoad(t);
  await run.burst(600);
  const rates: Record<string, Rate> = { 'a new database': await run.burst(EVENTS) };
  await run.pause({ isForced: isPart });
  rates['after a pause'] = await run.burst(EVENTS);
  rates['a backlog after a kill'] = await run.restart(EVENTS);
  await run.pause({ isForced: true });
  rates['after both'] = await run.burst(EVENTS);
  for (const [when, { perSecond, postgresUs }] of Object.entries(rates))
    t.diagnostic(`${when}: ${perSecond.toFixed(0)} deliveries/s, PostgreSQL ${postgresUs.toFixed(0)} µs each`);
  const [first, ...others] = Object.values(rates);
  for (const { postgresUs } of others) assert.ok(postgresUs < 2 * (first?.postgresUs ?? 0), `${postgresUs} µs`);
});
