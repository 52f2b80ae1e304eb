/** Streams over a publisher without the API: what a listener receives, how much of it, and what stays unfetched. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { compactDecrypt } from 'jose';
import { createHash } from 'node:crypto';
import { createLog } from '#core/log.ts';
import { shardOf } from '#core/ids.ts';
import { KEY, startEngine } from '../../../test/setup/engine.ts';
import { until } from '../../../test/setup/until.ts';
import type { EndReason } from '#core/event-stream.ts';
import type { Problem } from '#core/problem.ts';
import { PullStreams } from './pull-streams.ts';

const engine = await startEngine();
const { sql, storeId } = engine;
const shard = shardOf(storeId);

const settings = {
  pollMs: 20,
  commentMs: 60_000,
  recheckMs: 20,
  retryMs: 1_000,
  closeTimeoutMs: 100,
  unansweredMax: 100,
  bufferBytes: 64 * 1024,
  streamsMax: 10,
  streamsPerStoreMax: 10,
  answerKeptBytes: 16 * 1024,
  headerPrefix: 'Service',
  relationPrefix: 'svc',
  userAgent: 'Halcyon/test',
};

function streamsOf(
  t: { after: (end: () => Promise<void>) => void },
  changes: object = {},
  baseUrl = 'http://localhost',
) {
  const log = createLog('silent');
  const all = { ...settings, baseUrl, ...changes };
  const streams = new PullStreams({ sql, sealer: engine.sealer, clock: engine.clock, log }, all);
  t.after(() => streams.stop());
  return streams;
}

async function addHeld(): Promise<number> {
  const id = await engine.addWebhook('http://127.0.0.1:9/');
  await sql`update webhook set url = null, is_held = true, listened_at = now() where id = ${id}`;
  return id;
}

/** Reads as much as it is asked to; `wait` resolves when that many deliveries came. */
function openAt(
  streams: PullStreams,
  webhookId: number,
  findEndReason: () => Promise<EndReason | undefined> = async () => undefined,
) {
  const readable = streams.open({ shard, webhookId, storeId }, findEndReason);
  let text = '';
  const read = () => readable.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const given = () =>
    [...text.matchAll(/^event: delivery\ndata: (.*)$/gm)].map(
      ([, data = '']) => JSON.parse(data) as { delivery_id: number; headers: Record<string, string>; body: string },
    );
  return {
    readable,
    read,
    given,
    text: () => text,
    wait: (count: number) =>
      until(
        async () => given(),
        (all) => all.length >= count,
      ),
  };
}
const pending = async (webhookId: number) =>
  (await sql`select from delivery where webhook_id = ${webhookId} and due_at = 'infinity'`).length;
const fine = { code: 200, outcome: null, durationMs: 1, headers: null, body: null };

test('the number of unacknowledged deliveries is limited; each answer lets another one through', async (t) => {
  const id = await addHeld();
  await engine.publish([1, 2, 3, 4, 5]);
  const streams = streamsOf(t, { unansweredMax: 2, pollMs: 3_600_000 });
  const one = openAt(streams, id);
  one.read();
  const [first] = await one.wait(2);
  await streams.answer({ shard, webhookId: id }, first?.delivery_id ?? 0, fine);
  await one.wait(3);
  streams.wake([id]);
  await streams.answer({ shard, webhookId: id }, one.given()[1]?.delivery_id ?? 0, fine);
  assert.equal((await one.wait(4)).length, 4);
  assert.equal(new Set(one.given().map(({ delivery_id }) => delivery_id)).size, 4);
});

test('deliveries published by another process are found without a notification', async (t) => {
  const id = await addHeld();
  const one = openAt(streamsOf(t), id);
  one.read();
  await until(
    async () => one.text(),
    (text) => text.startsWith('retry: 1000'),
  );
  await engine.publish([11]);
  await one.wait(1);
});

test('a listener that does not read receives what the buffer holds and one message more', async (t) => {
  const id = await addHeld();
  await engine.publish(Array.from({ length: 40 }, (_, n) => 100 + n));
  const bufferBytes = 4_096;
  const one = openAt(streamsOf(t, { bufferBytes }), id);
  const held = await until(
    async () => one.readable.readableLength,
    (length) => length >= bufferBytes,
  );
  // After repeated queries it has checked many times since.
  let looks = 0;
  await until(
    async () => (looks += 1),
    (count) => count > 20,
  );
  assert.equal(one.readable.readableLength, held);
  assert.ok(held < 2 * bufferBytes);
  one.read();
  assert.equal((await one.wait(40)).length, 40);
});

test('the body is encrypted if the API is reached over plain http, as on the way to a URL', async (t) => {
  const id = await addHeld();
  await engine.publish([201]);
  const [far, near] = [openAt(streamsOf(t, {}, 'http://api.example.com'), id), openAt(streamsOf(t), id)];
  far.read();
  near.read();
  const [sealed] = await far.wait(1);
  const [open] = await near.wait(1);
  assert.equal(sealed?.headers['content-type'], 'application/jose');
  const { plaintext } = await compactDecrypt(
    Buffer.from(sealed?.body ?? '', 'base64').toString(),
    createHash('sha256').update(KEY).digest(),
  );
  assert.equal(Buffer.from(plaintext).toString('base64'), open?.body);
});

test('deliveries disabled meanwhile and erased ones are not sent, and end', async (t) => {
  const id = await addHeld();
  await engine.publish([301]);
  await sql`update webhook set epoch = epoch + 1 where id = ${id}`;
  const [erased] = await engine.publish([302]);
  await sql`update event set body = '' where id = ${erased?.id ?? 0}`;
  await engine.publish([303]);
  const one = openAt(streamsOf(t), id);
  one.read();
  const [only, ...more] = await one.wait(1);
  assert.match(Buffer.from(only?.body ?? '', 'base64').toString(), /"id":303/);
  assert.equal(more.length, 0);
  await until(
    () => pending(id),
    (count) => count === 2,
  );
  const worker = await engine.startWorker();
  worker.rediscover();
  await until(
    () => pending(id),
    (count) => count === 1,
  );
  await worker.stop();
});

test('a stream that may not continue ends, even if its listener does not read', async (t) => {
  const id = await addHeld();
  let reason: EndReason | undefined;
  const one = openAt(streamsOf(t), id, async () => reason);
  reason = 'unauthorized';
  await until(
    async () => one.readable.closed,
    (isClosed) => isClosed,
  );
});

test('streams are limited per process and per store; a new stream of a webhook replaces its own', async (t) => {
  const [a, b] = [await addHeld(), await addHeld()];
  const store = streamsOf(t, { streamsPerStoreMax: 1 });
  const findEndReason = async () => undefined;
  const first = openAt(store, a);
  first.read();
  const refusalOf = (by: PullStreams, webhookId: number) => {
    try {
      by.open({ shard, webhookId, storeId }, findEndReason);
      return undefined;
    } catch (error) {
      const { status, faults } = error as Problem;
      return [status, faults[0]?.code];
    }
  };
  assert.deepEqual(refusalOf(store, b), [429, 'too_many_requests']);
  assert.equal(refusalOf(store, a), undefined);
  await until(
    async () => first.text(),
    (text) => text.includes('"reason":"replaced"'),
  );
  const process = streamsOf(t, { streamsMax: 1 });
  openAt(process, a);
  assert.deepEqual(refusalOf(process, b), [503, 'busy']);
  await process.stop();
  assert.deepEqual(refusalOf(process, a), [503, 'unavailable']);
});

test('of two simultaneous streams of a webhook the newer starts after the older has started, and replaces it', async (t) => {
  const id = await addHeld();
  const streams = streamsOf(t);
  const asked: string[] = [];
  const { promise: answered, resolve } = Promise.withResolvers<undefined>();
  const older = openAt(streams, id, () => {
    asked.push('older');
    return answered;
  });
  await until(
    async () => asked.length,
    (count) => count === 1,
  );
  // A listener that disconnects in between is waited for as well.
  const closed = once(older.readable, 'close');
  older.readable.destroy();
  await closed;
  const newer = openAt(streams, id, async () => void asked.push('newer'));
  newer.read();
  await until(
    async () => newer.text(),
    (text) => text.startsWith('retry: '),
  );
  asked.push('older has');
  resolve(undefined);
  await until(
    async () => asked.length,
    (count) => count >= 3,
  );
  assert.deepEqual(asked.slice(0, 3), ['older', 'older has', 'newer']);
});
