/**
 * The program as `npm start` runs it, with its embedded PostgreSQL and autovacuum, under realistic load: a first burst, a pause
 * in which PostgreSQL collects statistics of empty tables, and a kill with a backlog.
 */
import { join } from 'node:path';
import { readFile } from 'node:fs/promises';
import { findRunning } from '#db/embedded.ts';
import { openPool, type Sql } from '#db/pool.ts';
import type { Cleanups } from './cleanups.ts';
import { placeForFixture, startFixture, type Fixture } from './fixture.ts';
import { processorMsOf } from './processor-time.ts';
import { startReceiver } from './receiver.ts';
import { until } from './until.ts';

const ARRAY = 100;
const PATIENCE_MS = 300_000;

/** Deliveries per second from the first to the last, and PostgreSQL's processor time per delivery. */
export type Rate = { perSecond: number; postgresUs: number };

/**
 * `afterReadyMs`, `afterKillMs`: when the first delivery arrived, negative before the program said that it is ready. `repeated`:
 * deliveries that arrived again.
 */
export type Restart = Rate & { afterReadyMs: number; afterKillMs: number; repeated: number };

export async function startRealisticLoad(ends: Cleanups) {
  const receiver = await startReceiver(ends);
  const place = await placeForFixture({ API_RATE_PER_SECOND: '0' });
  let fixture: Fixture = await startFixture(place);
  ends.after(async () => {
    await fixture.end('SIGTERM');
    await place.remove();
  });
  const { base_url: baseUrl, store_id: storeId, access_token: token, platform } = fixture.demo;
  const ask = async (path: string, bearer: string, body?: unknown, method = 'POST'): Promise<unknown> => {
    const headers = {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${bearer}`,
      'Content-Type': 'application/json',
    };
    const response = await fetch(baseUrl + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json();
  };
  const granted = await fetch(`${fixture.demo.auth_url}/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform }),
  });
  const { access_token: platformToken } = (await granted.json()) as { access_token: string };
  const webhook = {
    name: 'realistic-load',
    format: 'json',
    encryption_key: 'k',
    url: `${receiver.url}/`,
    event_resource: 'customer',
  };
  // The table of pending deliveries is to be empty, and a webhook of the demo fails.
  const listed = await ask(`/stores/${storeId}/webhooks`, token, undefined, 'GET');
  const ofDemo = (listed as { _embedded: Record<string, { id: number }[]> })._embedded['svc:webhooks'] ?? [];
  for (const { id } of ofDemo) await ask(`/webhooks/${id}`, token, { is_active: '0' }, 'PATCH');
  await ask(`/stores/${storeId}/webhooks`, token, webhook);

  const withSql = async <T>(run: (sql: Sql) => Promise<T>): Promise<T> => {
    const address = await findRunning(place.dataDir);
    if (address === undefined) throw new Error('The embedded PostgreSQL does not run');
    const sql = openPool(address, { connections: 1, applicationName: 'realistic-load' });
    try {
      return await run(sql);
    } finally {
      await sql.end({ timeout: 1 });
    }
  };
  const postmaster = async (): Promise<string> => {
    const [pid = ''] = (await readFile(join(place.dataDir, 'postgres/data/postmaster.pid'), 'utf8')).split('\n');
    return pid;
  };
  const seen = new Set<unknown>();
  let looked = 0;
  const distinct = (): number => {
    for (; looked < receiver.got.length; looked += 1) seen.add(receiver.got[looked]?.headers['webhook-id']);
    return seen.size;
  };
  const untilDelivered = (count: number): Promise<unknown> =>
    until(
      async () => distinct(),
      (got) => got >= count,
      PATIENCE_MS,
    );

  let published = 0;
  const publish = async (count: number): Promise<void> => {
    for (let sent = 0; sent < count; sent += ARRAY) {
      const events = Array.from({ length: ARRAY }, (_, n) => ({
        event: 'customer/created',
        resource: { id: published + n + 1 },
      }));
      await ask(`/stores/${storeId}/events`, platformToken, events);
      published += ARRAY;
    }
  };
  /** Measures while `run` delivers all published events. */
  const measure = async (run: () => Promise<unknown>): Promise<Rate> => {
    const [before, count, pid] = [distinct(), receiver.got.length, await postmaster()];
    const cpu = await processorMsOf(pid);
    await run();
    await untilDelivered(published);
    const delivered = published - before;
    const [first, last] = [receiver.got[count]?.atMs ?? Number.NaN, receiver.got.at(-1)?.atMs ?? Number.NaN];
    const usedMs = (await processorMsOf(pid)) - cpu;
    return { perSecond: delivered / ((last - first) / 1_000), postgresUs: (usedMs * 1_000) / delivered };
  };

  return {
    burst: (count: number): Promise<Rate> => measure(() => publish(count)),
    /** Waits until autovacuum has analyzed the empty table of pending deliveries; `isForced`: analyzes it immediately. */
    pause: ({ isForced }: { isForced: boolean }): Promise<void> =>
      withSql(async (sql) => {
        const state = async () => {
          const [row] = await sql<{ pending: number; analyzed: number }[]>`
            select (select count(*) from delivery) as pending, autoanalyze_count as analyzed
            from pg_stat_user_tables where relname = 'delivery'`;
          return row ?? { pending: Number.NaN, analyzed: 0 };
        };
        const { analyzed: before } = await until(state, ({ pending }) => pending === 0, PATIENCE_MS);
        if (isForced) await sql`analyze`;
        else await until(state, ({ analyzed }) => analyzed > before, PATIENCE_MS);
      }),
    /** Kills the program and its PostgreSQL while the endpoint hangs and this many events are pending, and starts them again. */
    restart: async (count: number): Promise<Restart> => {
      receiver.answer(() => {});
      const before = receiver.got.length;
      await publish(count);
      await until(
        async () => receiver.got.length,
        (got) => got > before,
        PATIENCE_MS,
      );
      const killedAtMs = performance.now();
      await fixture.end('SIGKILL');
      receiver.answer((_got, response) => void response.writeHead(204).end());
      receiver.got.length = before;
      fixture = await startFixture(place);
      const readyAtMs = performance.now();
      const rate = await measure(async () => {});
      const firstAtMs = receiver.got[before]?.atMs ?? Number.NaN;
      const repeated = receiver.got.length - before - count;
      return { ...rate, afterReadyMs: firstAtMs - readyAtMs, afterKillMs: firstAtMs - killedAtMs, repeated };
    },
  };
}
