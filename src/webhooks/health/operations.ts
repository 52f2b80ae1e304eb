/** The health of a webhook and the overview of a store: the last 24 hours. */
import type { Sql } from '#db/pool.ts';
import type { Charts } from '#hypermedia/chart.ts';
import { guarded, type Operation } from '#http/operation.ts';
import { shardOf } from '#core/ids.ts';
import { storeOfAddress } from '#core/principal.ts';
import { notFound } from '#core/problem.ts';
import { keyOf, type WebhookDeps } from '../access.ts';
import { hasStore } from '../webhook-sql.ts';
import { adviceOfWebhook } from './advice.ts';
import { chartsOfFigures } from './charts.ts';
import { healthDocument, overviewDocument } from './document.ts';
import { figuresOf, firstHourOf } from './figures.ts';
import { findHealth, listHealths, listHours } from './health-sql.ts';
import { readHealths } from './read.ts';

/** Limits of counted pending deliveries per webhook; lower in the overview, which counts up to a hundred webhooks. */
const PENDING_COUNTED_MAX = 10_000;
const PENDING_COUNTED_MAX_EACH = 1_000;

/** The time zone if the store has no webhooks, and thus no hours to show. */
const DEFAULT_TIME_ZONE = 'UTC';

type ChartedWebhook = { id: number; timeZone: string };
type Store = { shard: number; storeId: number };

/** Returns the charts for the page of a webhook. */
export async function chartsOfWebhook(sql: Sql, { id, timeZone }: ChartedWebhook, now: Date): Promise<Charts> {
  return chartsOfFigures(figuresOf(await listHours(sql, shardOf(id), [id], firstHourOf(now)), now), timeZone);
}

/** Creates the charts for the page of a store; passed to the module stores, which does not import this one. */
export function createStoreCharts({ sql, webhooksPerStore }: Pick<WebhookDeps, 'sql' | 'webhooksPerStore'>) {
  return async ({ shard, storeId }: Store, now: Date): Promise<Charts> => {
    const rows = await listHealths(sql, { shard, storeId }, webhooksPerStore);
    const [first] = rows;
    if (first === undefined) return {};
    const hours = await listHours(
      sql,
      shard,
      rows.map(({ id }) => id),
      firstHourOf(now),
    );
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
      summary: 'The health of this webhook in the last 24 hours',
      handle: async (request) => {
        const key = keyOf(request);
        const { now } = request;
        const row = await findHealth(sql, key);
        if (row === undefined) throw notFound('webhook');
        const { healths } = await readHealths(sql, key.shard, [row], { now, pendingLimit: PENDING_COUNTED_MAX });
        const [health] = healths;
        if (health === undefined) throw new Error(`Health of webhook ${key.id} not found`);
        return {
          status: 200,
          document: healthDocument(health, { baseUrl, now }),
          charts: async () => chartsOfFigures(health.figures, row.timeZone),
          advice: async () => adviceOfWebhook(sql, row, now),
        };
      },
    }),
    overview: guarded({
      summary: 'The health of all webhooks of this store in the last 24 hours, worst first',
      handle: async (request) => {
        const store = storeOfAddress(request);
        const { now } = request;
        const rows = await listHealths(sql, store, webhooksPerStore);
        if (rows.length === 0 && !(await hasStore(sql, store))) throw notFound('store');
        const found = await readHealths(sql, store.shard, rows, { now, pendingLimit: PENDING_COUNTED_MAX_EACH });
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
