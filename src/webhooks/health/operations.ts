/** How webhooks have fared in the last 24 hours: of one, and of all that a store has at once. */
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

/** Pending deliveries of a webhook are counted up to here; a tenth of it where a hundred are counted at once. */
const PENDING_COUNTED = 10_000;
const PENDING_COUNTED_EACH = 1_000;

/** Of a store without webhooks there is no hour to tell by its clocks. */
const NO_ZONE = 'UTC';

type Place = { id: number; timeZone: string };
type Store = { shard: number; storeId: number };

/** For the page of the webhook itself, which is read by other statements. */
export const chartsOfWebhook = async (sql: Sql, { id, timeZone }: Place, now: Date): Promise<Charts> =>
  chartsOfFigures(figuresOf(await listHours(sql, shardOf(id), [id], firstHourOf(now)), now), timeZone);

/** For the page of the store, which knows nothing of webhooks. */
export const createStoreCharts =
  ({ sql, webhooksPerStore }: Pick<WebhookDeps, 'sql' | 'webhooksPerStore'>) =>
  async ({ shard, storeId }: Store, now: Date): Promise<Charts> => {
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

export const createHealth = ({
  sql,
  baseUrl,
  webhooksPerStore,
}: Pick<WebhookDeps, 'sql' | 'baseUrl' | 'webhooksPerStore'>): Record<'health' | 'overview', Operation> => ({
  health: guarded({
    summary: 'How this webhook has fared in the last 24 hours',
    handle: async (request) => {
      const key = keyOf(request);
      const { now } = request;
      const row = await findHealth(sql, key);
      if (row === undefined) throw notFound('webhook');
      const { healths } = await readHealths(sql, key.shard, [row], { now, pendingLimit: PENDING_COUNTED });
      const [health] = healths;
      if (health === undefined) throw new Error(`The health of webhook ${key.id} was not read`);
      return {
        status: 200,
        document: healthDocument(health, { baseUrl, now }),
        charts: async () => chartsOfFigures(health.figures, row.timeZone),
        advice: async () => adviceOfWebhook(sql, row, now),
      };
    },
  }),
  overview: guarded({
    summary: 'How all webhooks of this store have fared in the last 24 hours, worst first',
    handle: async (request) => {
      const store = storeOfAddress(request);
      const { now } = request;
      const rows = await listHealths(sql, store, webhooksPerStore);
      if (rows.length === 0 && !(await hasStore(sql, store))) throw notFound('store');
      const found = await readHealths(sql, store.shard, rows, { now, pendingLimit: PENDING_COUNTED_EACH });
      const timeZone = rows[0]?.timeZone ?? NO_ZONE;
      return {
        status: 200,
        document: overviewDocument(found, store, { baseUrl, now }),
        charts: async () => chartsOfFigures(found.together, timeZone),
      };
    },
  }),
});
