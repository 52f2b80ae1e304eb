/** The statements of the outbox, in the home database, and of the changes that another database has applied. */
import { LOCKS } from '#db/advisory-lock.ts';
import type { Queryable } from '#db/pool.ts';
import { HOME } from './map.ts';

/**
 * `store`: a store was created, changed or erased. `changelog`: entries of the changelog. `access`: an app has got or lost access.
 * `resume`: an app has access again to stores where its webhooks are disabled. `app`: an app has declared, changed or removed its
 * webhook.
 */
export type ChangeKind = 'store' | 'changelog' | 'access' | 'resume' | 'app';
export type OutboxChange = { id: number; kind: ChangeKind; body: Readonly<Record<string, unknown>> };

/** Adds a change of a shard; returns false if the home database owns the shard. */
export async function enqueueForShard(
  tx: Queryable,
  change: { shard: number; kind: ChangeKind; body: object },
): Promise<boolean> {
  const { count } = await tx`
    insert into outbox (database, shard, kind, body)
    select database, shard, ${change.kind}, ${JSON.stringify(change.body)}::json from shard_owner
    where shard = ${change.shard} and database <> ${HOME}`;
  return count > 0;
}

/** Adds a change for all other databases. */
export async function enqueueForAll(tx: Queryable, change: { kind: ChangeKind; body: object }): Promise<void> {
  await tx`
    insert into outbox (database, kind, body)
    select id, ${change.kind}, ${JSON.stringify(change.body)}::json from shard_database where id <> ${HOME} order by id`;
}

/** Returns the databases that have changes to apply. */
export async function listWaiting(home: Queryable): Promise<number[]> {
  const rows = await home<{ id: number }[]>`
    select id from shard_database d where id <> ${HOME} and exists (select from outbox where database = d.id)`;
  return rows.map(({ id }) => id);
}

/** Returns the next changes of a database, in their order. */
export async function listChanges(home: Queryable, database: number, limit: number): Promise<OutboxChange[]> {
  return home<
    OutboxChange[]
  >`select id, kind, body from outbox where database = ${database} order by id limit ${limit}`;
}

export async function deleteChanges(home: Queryable, ids: readonly number[]): Promise<void> {
  await home`delete from outbox where id = any(${ids}::bigint[])`;
}

/** Age in seconds and number of the changes that wait, by database. */
export type Waiting = { database: number; changes: number; oldestSeconds: number };

export async function readWaiting(home: Queryable): Promise<Waiting[]> {
  return home<Waiting[]>`
    select database, count(*) as changes, extract(epoch from now() - min(date_created))::float8 as "oldestSeconds"
    from outbox group by database order by database`;
}

/**
 * Waits until no other process applies changes to this database; the lock ends with the transaction. Changes are listed under the lock: a
 * list from before could contain changes that another process has applied, and whose marks it has deleted.
 */
export async function lockForApplying(tx: Queryable): Promise<void> {
  await tx`select pg_advisory_xact_lock(${LOCKS.outbox})`;
}

/** Marks changes as applied, and returns those that were not. Forgets changes that are no longer in the outbox. */
export async function markApplied(tx: Queryable, ids: readonly number[]): Promise<ReadonlySet<number>> {
  await tx`delete from outbox_applied where id < ${Math.min(...ids)}`;
  const rows = await tx<{ id: number }[]>`
    insert into outbox_applied (id) select unnest(${ids}::bigint[]) on conflict do nothing returning id`;
  return new Set(rows.map(({ id }) => id));
}
