/**
 * HALCYON_SECRET_KEY is changed under load: process by process, in the four steps of
 * docs/operating.md, "Change the key". No event is missing, late by our fault, rejected or wrongly signed.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createSealer, keyIdOf } from '#db/seal.ts';
import { runProcess } from '../setup/command.ts';
import { databaseEnvOf, openFleet, type Fleet, type Life, type Settings } from '../setup/fleet/fleet.ts';
import type { Program } from '../setup/fleet/program.ts';
import { sealWebhooks } from '../setup/sealed-webhooks.ts';
import { until } from '../setup/until.ts';

type Publisher = Awaited<ReturnType<Fleet['startPublisher']>>;

const WORKERS = 2;
const PUBLISHERS = 2;
/** This many rows are sealed again beside the webhooks that receive deliveries. */
const FURTHER_WEBHOOKS = 5_000;
/** Long, so that no worker takes over: on two cores a heartbeat may be a second late. */
const LEASE_MS = 6_000;

test('the secret key is changed under load, process by process', async (t) => {
  const fleet = await openFleet({ leaseMs: LEASE_MS });
  const { ledger, sql, secretKey: old } = fleet;
  const fresh = randomBytes(32);
  const [store] = await sql<{ id: number }[]>`select id from store order by id limit 1`;
  const further = { storeId: store?.id ?? 0, first: 2_000_000, count: FURTHER_WEBHOOKS };
  await sealWebhooks(sql, createSealer(old), further);
  const sealedWith = async (key: Buffer): Promise<number> => {
    const [row] = await sql<{ n: number }[]>`
      select count(*) as n from webhook w cross join lateral (values (encryption_key), (next_encryption_key)) as v (sealed)
      where substring(sealed from 2 for 4) = ${keyIdOf(key)}`;
    return row?.n ?? NaN;
  };

  let workers = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()));
  let publishers = await Promise.all(Array.from({ length: PUBLISHERS }, () => fleet.startPublisher()));
  await fleet.startLoad();
  const isSending = ({ life }: Life) =>
    until(
      async () => ledger.inFlight(life),
      (count) => count > 0,
    );
  const end = async (program: Program): Promise<void> => {
    assert.equal(await program.end('SIGTERM'), 0, program.said());
  };
  /** Every process is replaced, one by one; old and new ones send and publish beside each other. */
  const restartWith = async (env: Settings): Promise<void> => {
    await Promise.all(workers.map(isSending));
    const [newWorkers, newPublishers]: [Life[], Publisher[]] = [[], []];
    for (const before of workers) {
      const worker = await fleet.startWorker({ env });
      newWorkers.push(worker);
      await isSending(worker);
      await end(before);
    }
    for (const before of publishers) {
      newPublishers.push(await fleet.startPublisher({ env }));
      await end(before);
    }
    [workers, publishers] = [newWorkers, newPublishers];
  };
  const set = (key: Buffer, other?: Buffer): Record<string, string> => ({
    HALCYON_SECRET_KEY: key.toString('hex'),
    ...(other === undefined ? {} : { HALCYON_SECRET_KEY_OTHER: other.toString('hex') }),
  });
  const database = databaseEnvOf(fleet.server.address);

  await restartWith(set(old, fresh));
  await restartWith(set(fresh, old));
  assert.equal(await sealedWith(fresh), 0);
  const arrived = ledger.arrivals.length;
  const { code, out, err } = await runProcess(['rekey', '--json'], { ...database, ...set(fresh, old) });
  t.diagnostic(`${ledger.arrivals.length - arrived} deliveries arrived meanwhile; ${out.trim()}`);
  assert.equal(code, 0, err);
  assert.ok(ledger.arrivals.length > arrived, 'deliveries continue while everything is sealed again');
  assert.equal(await sealedWith(old), 0);
  await restartWith(set(fresh));
  await Promise.all(workers.map(isSending));
  await fleet.settle(t);
  assert.equal(ledger.duplicates().length, 0);
  assert.equal(await sealedWith(old), 0);
  const refused = await runProcess(['deliver'], { ...database, ...set(old) });
  assert.equal(refused.code, 1);
  assert.match(refused.err, /HALCYON_SECRET_KEY is another key than the secrets in this database are sealed with/);
});
