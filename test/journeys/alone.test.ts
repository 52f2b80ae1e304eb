/** A delivery that was in flight when three owners of its shard died: whatever happens next, it is this one or nobody. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const HELD_MS = 150;

test('what is to be alone waits until all else is over, and nothing starts before it is recorded', async () => {
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
  // Found in this order when the shard is taken.
  for (const name of ['first', 'suspect', 'other']) await engine.addWebhook(`${receiver.url}/${name}`);
  await engine.publish([1]);
  await engine.sql`
    insert into delivery_suspect (shard, delivery_id, fence, deaths)
    select d.shard, d.id, 0, 3 from delivery d join webhook w on w.id = d.webhook_id where w.url like '%/suspect'`;
  await engine.startWorker();
  const pending = () => engine.sql`select from delivery`;
  await until(pending, ({ length }) => length === 0);
  assert.deepEqual(
    seen,
    ['/first', '/suspect', '/other'].flatMap((path) => [`${path} arrives`, `${path} is answered`]),
  );
  const left = await engine.sql`select from delivery_suspect`;
  assert.equal(left.length, 0);
});
