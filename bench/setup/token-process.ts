/** Halcyon's whole server in a process of its own, with the settings of config.ts, and its housekeeping on request. */
import { PASSWORD_COST } from '#identity/accounts/users.ts';
import { Registry } from '@prometheus-io/client';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { systemClock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import { createLog } from '#core/log.ts';
import { createOAuthPurges } from '#identity/oauth/oauth-purges-sql.ts';
import { startApp } from '#server/app.ts';
import { readConfig } from '#config/config.ts';
import { openInternalEvents } from '#server/publishing.ts';
import { startRetention } from '#server/retention.ts';
import { answer } from './child.ts';
import { openPools } from '../../test/setup/store-pools.ts';
import { NEVER_QUIET } from '../../test/setup/clock.ts';

/** Later than any bench ends. */
const NEVER_MS = 2 ** 31 - 1;
const log = createLog('warn');
const ends: (() => Promise<void>)[] = [];
let sql: Sql | undefined;
let statements = 0;
let purging: { housekeeping: Running; registry: Registry } | undefined;

const handlers = {
  start: async (given: {
    address: DatabaseAddress;
    port: number;
    secretKey: Uint8Array;
    counts: boolean;
  }): Promise<string> => {
    const origin = `http://127.0.0.1:${given.port}`;
    const config = readConfig({ PORT: String(given.port), BASE_URL: origin, API_RATE_PER_SECOND: '0' }, '/');
    const { connections } = config.database;
    sql = openPool(given.address, {
      connections,
      applicationName: 'bench-server',
      ...(given.counts && { onQuery: () => void (statements += 1) }),
    });
    ends.push(() => sql?.end({ timeout: 1 }) ?? Promise.resolve());
    const app = await startApp({
      // It comes when the bench says so, and not in the middle of something else.
      config: { ...config, housekeeping: { ...config.housekeeping, everyMs: NEVER_MS } as typeof config.housekeeping },
      sql,
      direct: sql,
      secretKeys: [Buffer.from(given.secretKey)],
      clock: systemClock,
      pace: NEVER_QUIET,
      passwordCost: PASSWORD_COST,
      openPools,
      random: Math.random,
      log,
      roles: ['serve'],
    });
    ends.push(() => app.stop());
    return `startApp, roles serve, connections=${connections}`;
  },
  statements: async (_: null): Promise<number> => statements,
  /** Deletes expired rows of one kind, as the server does, until it is stopped. */
  purge: async (given: { what: string; batchRows: number; pauseMs: number }): Promise<void> => {
    if (sql === undefined) throw new Error('Not started');
    const effects = openInternalEvents({ baseUrl: 'https://api.example.com' });
    const purges = createOAuthPurges({ sql, config: readConfig({}, '/') }, effects).filter(
      ({ name }) => name === given.what,
    );
    const registry = new Registry();
    const settings = { everyMs: 1, batchRows: given.batchRows, pauseMs: given.pauseMs };
    const runtime = { direct: sql, clock: systemClock, pace: NEVER_QUIET, log };
    purging = { housekeeping: startRetention(runtime, settings, { registry, purges }), registry };
  },
  /** Answers how many rows were deleted. */
  endPurge: async (_: null): Promise<number> => {
    const { housekeeping, registry } = purging ?? {};
    await housekeeping?.stop();
    const metrics = (await registry?.getMetricsAsJSON()) ?? [];
    const purged = metrics.find(({ name }) => name === 'halcyon_purged_rows_total');
    return purged?.values.reduce((sum, { value }) => sum + value, 0) ?? 0;
  },
};

export type TokenProcess = typeof handlers;
answer(handlers, async () => {
  for (const end of ends.toReversed()) await end();
});
