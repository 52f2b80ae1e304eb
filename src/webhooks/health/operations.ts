/** The health of a webhook and the overview of a store: the last 24 hours, or a longer period. */
import type { Sql } from '#db/pool.ts';
import type { Charts } from '#hypermedia/chart.ts';
import type { Document } from '#hypermedia/document.ts';
import { guarded, type Charted, type Operation } from '#http/operation.ts';
import { storeOfAddress } from '#core/principal.ts';
import { notFound } from '#core/problem.ts';
import { appOf, READ_SCOPES, keyOf, type WebhookDeps } from '../access.ts';
import { hasStore, type Key } from '../webhook-sql.ts';
import { adviceOfWebhook } from './advice.ts';
import { chartsOfFigures } from './charts.ts';
import { healthDocument, overviewDocument } from './document.ts';
import { DEFAULT_PERIOD, figuresOf, readPeriod, type Period } from './figures.ts';
import { findHealth, listHealths } from './health-sql.ts';
import { readHealths, readHours, type Health } from './read.ts';

/** Limits of counted pending deliveries per webhook; lower in the overview, which counts up to a hundred webhooks. */
const PENDING_COUNTED_MAX = 10_000;
const PENDING_COUNTED_MAX_EACH = 1_000;

/** The time zone if the store has no webhooks, and thus no hours to show. */
const DEFAULT_TIME_ZONE = 'UTC';

type Store = { shard: number; storeId: number };

/** Reads the health of one webhook. Throws a 404 if it does not exist. */
async function readHealth(sql: Sql, key: Key, { now, period }: { now: Date; period: Period }): Promise<Health> {
  const row = await findHealth(sql, key);
  if (row === undefined) throw notFound('webhook');
  const options = { now, period, pendingLimit: PENDING_COUNTED_MAX };
  const [health] = (await readHealths(sql, key.shard, [row], options)).healths;
  if (health === undefined) throw new Error(`Health of webhook ${key.id} not found`);
  return health;
}

/** Returns what the page of a webhook shows beside its settings: charts, and its health, which is read once for both. */
export function statisticsOfWebhook(
  { sql, baseUrl }: Pick<WebhookDeps, 'sql' | 'baseUrl'>,
  key: Key,
  now: Date,
): { charts: Charted; summary: () => Promise<Document> } {
  let reading: Promise<Health> | undefined;
  const read = () => (reading ??= readHealth(sql, key, { now, period: DEFAULT_PERIOD }));
  return {
    charts: async () => {
      const { figures, row } = await read();
      return chartsOfFigures(figures, row.timeZone);
    },
    summary: async () => healthDocument(await read(), { baseUrl, now }),
  };
}

/** Creates the charts for the page of a store; passed to the module stores, which does not import this one. */
export function createStoreCharts({ sql, webhooksPerStore }: Pick<WebhookDeps, 'sql' | 'webhooksPerStore'>) {
  return async ({ shard, storeId }: Store, now: Date): Promise<Charts> => {
    // Of all webhooks, also those of apps that the reader does not see: the charts name none.
    const rows = await listHealths(sql, { shard, storeId }, webhooksPerStore, null);
    const [first] = rows;
    if (first === undefined) return {};
    const ids = rows.map(({ id }) => id);
    const hours = await readHours(sql, shard, ids, { now, period: DEFAULT_PERIOD });
    return chartsOfFigures(figuresOf(hours, now), first.timeZone);
  };
}

export function createHealth({
  sql,
  baseUrl,
  webhooksPerStore,
}: Pick<WebhookDeps, 'sql' | 'baseUrl' | 'webhooksPerStore'>): Record<'health' | 'overview', Operation> {
  return {
    health: guarded({
      summary: 'The health of this webhook in the last 24 hours, 7 or 30 days',
      scopes: READ_SCOPES,
      modifiers: ['period'],
      handle: async (request) => {
        const key = keyOf(request);
        const { now } = request;
        const period = readPeriod(request.query);
        const health = await readHealth(sql, key, { now, period });
        const { row } = health;
        return {
          status: 200,
          document: healthDocument(health, { baseUrl, now }),
          charts: async () => chartsOfFigures(health.figures, row.timeZone),
          advice: async () => adviceOfWebhook({ sql, baseUrl }, row, now),
        };
      },
    }),
    overview: guarded({
      summary: 'The health of all webhooks of this store in the last 24 hours, 7 or 30 days, worst first',
      scopes: READ_SCOPES,
      modifiers: ['period'],
      handle: async (request) => {
        const store = storeOfAddress(request);
        const { now } = request;
        const period = readPeriod(request.query);
        const rows = await listHealths(sql, store, webhooksPerStore, appOf(request.principal));
        if (rows.length === 0 && !(await hasStore(sql, store))) throw notFound('store');
        const found = await readHealths(sql, store.shard, rows, {
          now,
          period,
          pendingLimit: PENDING_COUNTED_MAX_EACH,
        });
        const timeZone = rows[0]?.timeZone ?? DEFAULT_TIME_ZONE;
        return {
          status: 200,
          document: overviewDocument(found, store, { baseUrl, now }),
          charts: async () => chartsOfFigures(found.total, timeZone),
        };
      },
    }),
  };
}
