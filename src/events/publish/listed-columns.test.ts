import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Queryable } from '#db/pool.ts';
import { parseExact } from '#core/exact-number.ts';
import { Problem } from '#core/problem.ts';
import { shardOf } from '#core/ids.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import { loadVersions } from '../load/load-sql.ts';
import { readPublish } from './publish-request.ts';

const engine = await startEngine();
const { sql, storeId } = engine;
const limits = { eventsPerRequest: 1, eventLimitBytes: 10_000, eventDepth: 9 };

/** The rows whose columns are not what the generated columns were. */
const wrong = () => sql`
  select type, id, body, modified_day, parent_id from resource
  where modified_day is distinct from (modified_at at time zone 'UTC')::date - date '2020-01-01'
    or parent_id is distinct from left(case type
      when 'transaction' then body::json ->> 'customer_id'
      when 'subscription' then body::json ->> 'customer_id'
      when 'transaction_log' then body::json ->> 'transaction_id'
      when 'subscription_event' then body::json ->> 'subscription_id'
    end, 64)`;

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 80 }),
  fc.string({ unit: fc.constantFrom('😀', 'é', '"', '\\', '\n', 'a'), minLength: 60, maxLength: 70 }),
);
const value = fc.oneof(
  text.filter((one) => !one.includes('\0')).map((one) => JSON.stringify(one)),
  fc.constantFrom('null', 'true', '7', '-0', '-0.0', '12.50', '1e3', '1E-7', '1e21', '9007199254740993', '0.1'),
  fc.constantFrom('{}', '[1, "2"]', '{"id":7,"a":1.0}', '""'),
);
const date = fc.constantFrom(
  '"2026-11-20T23:30:00-0500"',
  '"2019-12-31"',
  '"2026-11-20T00:00:00.999Z"',
  '"0001-01-01T00:00:00Z"',
  '"9999-12-31T23:59:59Z"',
  '"2026-02-30"',
  '"yesterday"',
  '7',
  'null',
);
const type = fc.constantFrom('transaction', 'subscription', 'transaction_log', 'customer', 'item');
const member = fc.constantFrom('customer_id', 'transaction_id', 'subscription_id', 'note');
const version = fc.tuple(type, fc.dictionary(member, value), fc.option(date, { nil: undefined }));

/** Publishes a version of one of two resources, or loads it; a version that is refused is in no row. */
async function write(
  by: 'publish' | 'load',
  id: number,
  [name, members, at]: readonly [string, Record<string, string>, string | undefined],
) {
  const pairs = Object.entries({ id: String(id), ...members, ...(at !== undefined && { date_modified: at }) });
  const resource = `{${pairs.map(([key, one]) => `${JSON.stringify(key)}:${one}`).join(',')}}`;
  const now = engine.clock.now();
  const asked = {
    limits,
    header: undefined,
    fingerprintKeys: [Buffer.alloc(32)] as const,
    timeZone: 'Europe/Berlin',
    now,
  };
  try {
    const { events } = readPublish(parseExact(`{"event":"${name}/modified","resource":${resource}}`), asked);
    if (by === 'publish') await engine.publisher({ storeId, events, now });
    else await loadVersions(sql, { shard: shardOf(storeId), storeId }, events, { now, baseUrl: 'https://example.com' });
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 400) throw error;
  }
}

test('published and loaded resources have the columns of their lists as PostgreSQL reads them from the body', async () => {
  const written = fc.tuple(
    fc.constantFrom('publish' as const, 'load' as const),
    fc.integer({ min: 1, max: 2 }),
    version,
  );
  await fc.assert(
    fc.asyncProperty(fc.array(written, { maxLength: 20 }), async (versions) => {
      for (const one of versions) await write(...one);
      assert.deepEqual([...(await wrong())], []);
    }),
    { numRuns: 20 },
  );
  for (const [id, by] of [
    [4, 'publish'],
    [5, 'load'],
  ] as const)
    await write(by, id, ['transaction', { customer_id: '"ada"' }, '"2026-11-20"']);
  assert.deepEqual([...(await wrong())], []);
  const rows = await sql<{ parent: string | null }[]>`
    select parent_id as parent from resource where store_id = ${storeId} and id in ('4', '5')`;
  assert.deepEqual([...rows], [{ parent: 'ada' }, { parent: 'ada' }]);
});

test('a statement that does not know the columns changes them with the body and the date', async () => {
  await write('publish', 3, ['transaction', { customer_id: '"ada"' }, '"2026-11-20"']);
  const change = async (of: Queryable) => of`
    update resource set body = '{"id":3,"customer_id":"bob"}', modified_at = '2026-11-25T00:00:00Z' where id = '3'`;
  await change(sql);
  const stored = () => sql`select modified_day as day, parent_id as parent from resource where id = '3'`;
  assert.deepEqual({ ...(await stored())[0] }, { day: 2520, parent: 'bob' });
  // Also in a transaction that has published.
  await write('publish', 3, ['transaction', { customer_id: '"ada"' }, '"2026-11-26"']);
  await sql.begin(async (tx) => {
    await tx`select set_config('halcyon.writes_listed_columns', '1', true)`;
    await change(tx);
  });
  assert.deepEqual({ ...(await stored())[0] }, { day: 2520, parent: 'bob' });
  assert.deepEqual([...(await wrong())], []);
});
