import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#kernel/log.ts';
import { shardOf } from '#kernel/ids.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import { Bodies } from '../message/bodies.ts';
import { Signal } from '../signal.ts';
import { Fetcher } from './fetcher.ts';
import { Lane } from './lane.ts';
import { UNUSABLE } from './target.ts';

test('a webhook that cannot be used is told of once, however often it is read, and again when it was sound meanwhile', async () => {
  const engine = await startEngine();
  const { sql, clock, sealer } = engine;
  const id = await engine.addWebhook('http://127.0.0.1:1/');
  const lines: string[] = [];
  const log = createLog('error', { write: (line) => void lines.push(line) });
  const bodies = new Bodies({ sql, bodyCacheBytes: 1_024, relationPrefix: 'svc' });
  const filled = new Signal();
  const fetcher = new Fetcher({
    sql,
    clock,
    log,
    sealer,
    bodies,
    onFilled: () => filled.fire(),
    onCondemned: () => assert.fail('nothing demands that'),
  });
  const lane = new Lane(shardOf(id), id, { laneQueue: 4, slotsPerLane: 1, slotsPerSlowLane: 1 });
  /** As discovery does with everything that is off, every half a minute. */
  const readAgain = async (): Promise<void> => {
    lane.forgetTarget();
    const done = filled.next();
    fetcher.want(lane);
    await done;
  };
  const [row] = await sql<{ key: Buffer }[]>`select encryption_key as key from webhook where id = ${id}`;
  assert.ok(row !== undefined);
  const breakIt = () => sql`update webhook set encryption_key = 'sealed with another key' where id = ${id}`;
  await breakIt();
  await readAgain();
  assert.equal(lane.target, UNUSABLE);
  await readAgain();
  assert.equal(lines.length, 1);
  await sql`update webhook set encryption_key = ${row.key} where id = ${id}`;
  await readAgain();
  assert.equal(lane.target?.isActive, true);
  await breakIt();
  await readAgain();
  assert.equal(lines.length, 2);
});
