/** A delivery that was in flight when three owners of its shard crashed runs in the isolation slot, with no other attempt beside it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const HELD_MS = 150;

test('a delivery in the isolation slot waits until all other attempts have ended, and no attempt starts before it is recorded', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const seen: string[] = [];
  receiver.answer(({ path }, response) => {
    seen.push(`${path} arrives`);
    const answer = () => {
      seen.push(`${path} is answered`);
      response.writeHead(204).end();
    };
    if (path === '/other') answer();
    else setTimeout(answer, HELD_MS);
  });
  // Listed in the order in which the worker finds them when it takes the shard.
  for (const name of ['first', 'quarantined', 'other']) await engine.addWebhook(`${receiver.url}/${name}`);
  await engine.publish([1]);
  await engine.sql`
    insert into delivery_suspect (shard, delivery_id, fence, deaths)
    select d.shard, d.id, 0, 3 from delivery d join webhook w on w.id = d.webhook_id where w.url like '%/quarantined'`;
  await engine.startWorker();
  const pending = () => engine.sql`select from delivery`;
  await until(pending, ({ length }) => length === 0);
  assert.deepEqual(
    seen,
    ['/first', '/quarantined', '/other'].flatMap((path) => [`${path} arrives`, `${path} is answered`]),
  );
  const left = await engine.sql`select from delivery_suspect`;
  assert.equal(left.length, 0);
});
