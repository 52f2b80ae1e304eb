/** A process follows a move: every event that a client published is delivered, whichever database has the shard. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { removeUnused } from '#shards/move/moves.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { createDatabase, Mover, SECRET_KEY, startLogicalServer } from '../setup/shard-move.ts';

const ends = cleanups();
const server = await startLogicalServer(ends, 18);
const urls = { home: await createDatabase(server, 'home'), b: await createDatabase(server, 'b') };
const receiver = await startReceiver(ends);
const sql = openPool({ kind: 'url', url: urls.home }, { connections: 10, applicationName: 'test' });
ends.after(() => sql.end({ timeout: 0 }));
const app = await startTestApp({ sql, secretKey: SECRET_KEY, env: { LOG_LEVEL: 'silent' } });
ends.after(() => app.stop());

type Published = { id: number; refused: number; longestMs: number };

/** Publishes one event, again after each 503, as a publisher does. */
async function publish(n: number): Promise<Published> {
  const since = performance.now();
  for (let refused = 0; ; refused += 1) {
    const body = { event: 'customer/modified', resource: { id: n } };
    const response = await app.api('POST', `/stores/${app.storeId}/events`, { token: app.platformToken, body });
    const text = await response.text();
    if (response.status === 503) {
      assert.equal(response.headers.get('retry-after'), '1');
      continue;
    }
    assert.equal(response.status, 201, text);
    return { id: (JSON.parse(text) as { id: number }).id, refused, longestMs: performance.now() - since };
  }
}

test('every published event is delivered while its shard moves there and back', async (t) => {
  const webhook = {
    name: 'w',
    format: 'json',
    encryption_key: 'k',
    url: receiver.url,
    event_resource: 'customer',
  };
  /** Returns the id of the webhook: each request is the same one. */
  const create = async (): Promise<unknown> => {
    const headers = { 'Idempotency-Key': 'the webhook of the test' };
    const request = () => app.api('POST', `/stores/${app.storeId}/webhooks`, { body: webhook, headers });
    const response = await until(request, ({ status }) => status !== 503);
    const text = await response.text();
    assert.equal(response.status, 201, text);
    return (JSON.parse(text) as { id: unknown }).id;
  };
  const created = await create();
  const mover = new Mover(ends, urls);
  const stopping = new AbortController();
  const published: Published[] = [];
  const publishing = (async () => {
    for (let n = 1; !stopping.signal.aborted; n += 1) published.push(await publish(n));
  })();
  const shards = [shardOf(app.storeId)];
  for (const to of ['b', 'home']) {
    const { refusedMs } = await mover.move(shards, to);
    t.diagnostic(`to ${to}: refused for ${Math.round(refusedMs ?? 0)} ms`);
    assert.equal(await create(), created, 'the response that is stored for a key moves with the store');
    await mover.dropMoved(5_000);
  }
  stopping.abort();
  await publishing;
  const longest = Math.max(...published.map(({ longestMs }) => longestMs));
  t.diagnostic(`${published.length} events, longest publish with retries ${Math.round(longest)} ms`);
  await receiver.until(published.length);
  assert.equal(new Set(published.map(({ id }) => id)).size, published.length);
  t.diagnostic(`${receiver.got.length - published.length} duplicates`);
  const others = () => sql`
    select from pg_stat_activity where datname = 'b' and application_name = 'other database'`;
  assert.notEqual((await others()).length, 0);
  await removeUnused(sql);
  await until(others, ({ length }) => length === 0);
});
