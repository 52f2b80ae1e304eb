/**
 * Brings the webhooks of an app to what it declares, in batches of stores: the first batch in the transaction of the change, and each of the
 * others in a transaction of its own, by any process. A batch ends with how far the change has been followed, so another process
 * continues after a crash. A change of the declaration meanwhile begins again at the first store.
 *
 * A batch locks the app first, as each change of its access does: what it reads of grants and declarations cannot change until its commit.
 */
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import { shardOf } from '#core/ids.ts';
import type { Pace, Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { listLeasedShards } from '#shards/map-sql.ts';
import { announceTo, announceWebhooks, type AnnouncingDeps } from './app-access.ts';
import {
  countInstalledStores,
  findDeclaring,
  listInstalledStores,
  lockApps,
  readClient,
  type StorePage,
} from './app-access-sql.ts';
import { declaredBy } from './declared.ts';
import { deleteDeclarations, readDeclared } from './declarations-sql.ts';
import {
  countDeclaredStores,
  deleteChange,
  deleteDeclared,
  listChanging,
  listDeclaredStores,
  lockChange,
  lockDeclared,
  updateChange,
  updateDeclared,
  upsertChange,
} from './follow-sql.ts';

/** Stores per transaction, each with a webhook for each declared resource. */
const STORES_PER_BATCH = 200;
const POLL_MS = 5_000;

/** Lets the stores of an app follow its declaration in this database, the first of them at once. */
export async function beginFollowing(tx: Queryable, deps: AnnouncingDeps, client: number, now: Date): Promise<void> {
  const shards = await listLeasedShards(tx);
  const installed = await countInstalledStores(deps.accounts.of(tx), client, shards);
  await upsertChange(tx, client, Math.max(installed, await countDeclaredStores(tx, client)));
  await followNext(tx, deps, client, now);
}

const NOTHING = { url: null, events: [], query: null, filter: null };

const byShard = (a: number, b: number): number => shardOf(a) - shardOf(b) || a - b;

/** Returns the next stores: those that have let the app in, and those that have a webhook of it. */
async function nextStores(
  tx: Queryable,
  accounts: Queryable,
  client: number,
  { shards, after }: { shards: readonly number[]; after: StorePage['after'] },
): Promise<number[]> {
  const page = { after, limit: STORES_PER_BATCH };
  const installed = await listInstalledStores(accounts, client, shards, page);
  const declared = await listDeclaredStores(tx, client, shards, page);
  return [...new Set([...installed, ...declared])].toSorted(byShard).slice(0, STORES_PER_BATCH);
}

/** The next stores, in these shards: those after one and up to another. */
type Batch = { stores: readonly number[]; shards: readonly number[]; after: StorePage['after']; last: number };

/** Brings the webhooks in these stores to what the app declares; deletes those of resources that it does not declare. */
async function follow(
  tx: Queryable,
  deps: AnnouncingDeps,
  client: number,
  { stores, shards, ...range }: Batch,
  now: Date,
): Promise<void> {
  const accounts = deps.accounts.of(tx);
  const { url, ...declaration } = (await readDeclared(tx, client)) ?? NOTHING;
  const app = await readClient(accounts, client);
  // Retention has deleted the app, and deletes its last webhooks.
  if (app === undefined) return;
  const declared = new Map(url === null ? [] : declaredBy({ ...declaration, ...app }).map((one) => [one.type, one]));
  const webhooks = await lockDeclared(tx, client, shards, range);
  for (const [type, ofType] of Map.groupBy(webhooks, (webhook) => webhook.type)) {
    const settings = type === null ? undefined : declared.get(type);
    if (url === null || settings === undefined) await deleteDeclared(tx, ofType);
    else await updateDeclared(tx, ofType, { ...settings, url, isSuspended: app.isSuspended }, now);
  }
  await announceWebhooks(tx, deps.announce, webhooks);
  const apps = await findDeclaring(accounts, { client });
  await announceTo(tx, deps, { client, apps, isSilent: true, reach: { apps: [client], stores } }, now);
}

/** Follows the change of an app in the next stores. Returns false if it has been followed in all, or another process follows it. */
export async function followNext(tx: Queryable, deps: AnnouncingDeps, client: number, now: Date): Promise<boolean> {
  const accounts = await deps.accounts.locked(tx);
  await lockApps(accounts, [client]);
  const change = await lockChange(tx, client);
  if (change === undefined) return false;
  // Rows of shards that have moved to another database are refused.
  const within = { shards: await listLeasedShards(tx), after: change.after };
  const stores = await nextStores(tx, accounts, client, within);
  const last = stores.at(-1);
  if (last !== undefined) await follow(tx, deps, client, { ...within, stores, last }, now);
  if (last !== undefined && stores.length === STORES_PER_BATCH) {
    const after = { shard: shardOf(last), storeId: last };
    await updateChange(tx, client, { after, followed: change.followed + stores.length });
    return true;
  }
  await deleteChange(tx, client);
  if ((await readDeclared(tx, client))?.url === null) await deleteDeclarations(tx, [client]);
  return false;
}

/** Starts to follow the changes of declarations in the stores of a database. */
export function startFollowing(deps: AnnouncingDeps & { sql: Sql; clock: Clock; pace: Pace; log: Log }): Running {
  const { sql, clock, pace, log } = deps;
  const stopping = new AbortController();
  const { signal } = stopping;
  const followAll = async (client: number): Promise<void> => {
    while (!signal.aborted && (await transaction(sql, (tx) => followNext(tx, deps, client, clock.now()))));
  };
  const failed = (error: unknown): void => {
    if (!isUnavailable(error)) log.error({ err: error }, 'following a declaration failed; retrying');
  };
  const round = async (): Promise<void> => {
    for (const client of await listChanging(sql).catch((error: unknown) => (failed(error), [])))
      await followAll(client).catch(failed);
  };
  const running = round().then(() => pace.repeat(POLL_MS, round, signal));
  return {
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}
