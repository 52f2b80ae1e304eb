/** A delivery that crashes every process that sends it, among many others: workers are restarted, as an operator does. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { testDatabase } from '../setup/database.ts';
import { cleanups, type Cleanups } from '../setup/cleanups.ts';
import { startEngine } from '../setup/engine.ts';
import { startProgram, type Program } from '../setup/fleet/program.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import type { DatabaseAddress } from '#db/pool.ts';

const ROOT = join(import.meta.dirname, '../..');
const WORKERS = 2;
/**
 * Two before the crash is counted, and five by the count; and two for a shard that was handed back to a restarted
 * worker before the crashing delivery started: that resets its count to 0.
 */
const CRASHES_AT_MOST = 9;

const range = (count: number, from: number): number[] => Array.from({ length: count }, (_, index) => from + index);

/** Keeps this many workers running, whatever ends them; returns the number of crashes. */
function keepWorkers(address: DatabaseAddress, secretKey: Buffer, ends: Cleanups) {
  const { directory, user, password, database } = address as Extract<DatabaseAddress, { kind: 'socket' }>;
  const env = {
    DATABASE_URL: `postgres:///${database}`,
    PGHOST: directory,
    PGUSER: user,
    PGPASSWORD: password,
    HALCYON_SECRET_KEY: secretKey.toString('hex'),
    HALCYON_DATA: join(tmpdir(), 'halcyon-crashing-delivery'),
    OUTBOUND_ALLOW: '127.0.0.0/8',
    DELIVERY_LEASE_MS: '500',
    LOG_LEVEL: 'error',
    NODE_OPTIONS: `--import=${join(import.meta.dirname, 'crashing-delivery/crash.ts')}`,
  };
  let crashes = 0;
  const over = new AbortController();
  const running = new Set<Program>();
  const live = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const worker = await startProgram({ root: ROOT, args: ['deliver'], env, ready: 'is delivering.' });
      running.add(worker);
      await until(async () => over.signal.aborted || worker.isOver(), Boolean);
      running.delete(worker);
      if (over.signal.aborted) await worker.end('SIGTERM');
      else crashes += 1;
    }
  };
  const lives = Promise.all(Array.from({ length: WORKERS }, live));
  ends.after(async () => {
    over.abort();
    await lives;
  });
  return { crashes: () => crashes, running: () => running.size };
}

test('a delivery that crashes workers is dead-lettered after a few crashes, all others arrive, and no worker crashes any more', async (t) => {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  const secretKey = randomBytes(32);
  const engine = await startEngine({ sql, ends, secretKey });
  const receiver = await startReceiver(ends);
  receiver.answer((_got, response) => void setTimeout(() => response.writeHead(204).end(), 20));
  const otherId = await engine.addStore();
  await engine.addWebhook(`${receiver.url}/a`);
  await engine.addWebhook(`${receiver.url}/b`, { storeId: otherId });
  await engine.addWebhook(`${receiver.url}/c`, { storeId: otherId });
  const first = await engine.publish(range(100, 1));
  await engine.publish(range(50, 201), undefined, otherId);
  const poison = first[40];
  assert.ok(poison !== undefined);
  await sql`update event set body = '{"id":41,"name":"ends-the-process"}' where id = ${poison.id}`;

  const keyOf = ({ path, body }: Got): string => `${path} ${(JSON.parse(body.toString()) as { id: number }).id}`;
  const arrived = () => new Set(receiver.got.map(keyOf));
  const workers = keepWorkers(address, secretKey, ends);
  const pending = () => sql<{ n: number }[]>`select count(*) as n from delivery`;
  await until(pending, ([row]) => row?.n === 0);

  const innocent = [
    ...range(100, 1)
      .filter((id) => id !== 41)
      .map((id) => `/a ${id}`),
    ...range(50, 201).flatMap((id) => [`/b ${id}`, `/c ${id}`]),
  ];
  assert.deepEqual(
    innocent.filter((key) => !arrived().has(key)),
    [],
    'all others arrive',
  );
  assert.equal(arrived().has('/a 41'), false);
  const ended = await sql`
    select d.state, a.outcome, a.n from delivery_done d join attempt_log a on a.delivery_id = d.id where d.state = 'failed'`;
  assert.deepEqual([...ended], [{ state: 'failed', outcome: 'internal', n: 1 }]);
  const crashes = workers.crashes();
  t.diagnostic(`${crashes} crashes; ${receiver.got.length} arrivals of ${innocent.length} deliveries`);
  assert.ok(crashes >= 1 && crashes <= CRASHES_AT_MOST, `${crashes} crashes`);

  await engine.publish(range(100, 301));
  await until(pending, ([row]) => row?.n === 0);
  assert.equal(workers.crashes(), crashes, 'no worker crashes any more');
  const notes = await sql`select from delivery_suspect`;
  assert.equal(notes.length, 0, 'the quarantine is empty');
});
