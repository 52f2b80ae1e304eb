/** The log line at the end of a stop. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const EXCHANGES_MS = 50;
/** Both end when there is nothing left to do. */
const LONG_MS = 60_000;
const stopping = { exchangesMs: EXCHANGES_MS, recordsMs: LONG_MS, handBackMs: LONG_MS };

test('a stop ends with a log line: aborted attempts, unrecorded outcomes, returned shards', async () => {
  const lines: string[] = [];
  const engine = await startEngine({ log: createLog('info', { write: (line) => void lines.push(line) }) });
  const receiver = await startReceiver();
  // The last one is never answered.
  receiver.answer((got, response) => void (got.path === '/silent' || response.writeHead(204).end()));
  await engine.addWebhook(`${receiver.url}/silent`);
  await engine.addWebhook(`${receiver.url}/quick`);
  const worker = await engine.startWorker({ stopping });
  await until(
    async () => worker.ownedShards().length,
    (shards) => shards === 256,
  );
  await engine.publish([1], worker);
  await receiver.until(2);
  // Otherwise a slow machine aborts or does not record the answered one.
  await until(
    () => engine.sql`select from attempt_log`,
    ({ length }) => length === 1,
  );
  await worker.stop();
  const { time: _at, tookMs, ...line } = JSON.parse(lines.at(-1) ?? '{}') as Record<string, unknown>;
  assert.deepEqual(line, { level: 30, aborted: 1, unrecorded: 0, handedBack: 256, msg: 'stopped delivering' });
  assert.ok(Number(tookMs) >= EXCHANGES_MS - 1);
});
