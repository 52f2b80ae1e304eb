/**
 * Records who wrote what for a shard, and whether that worker owned it then: triggers that only tests create.
 *
 * `audit_lease` has a row for each change of a lease, `audit_write` one for each statement of a worker and shard that it
 * wrote to, with the lease as the trigger read it. That reading alone would prove little: a worker that does not
 * lock the lease `for share` may read it a moment before it changes hands, and commit a moment after. So a write is placed
 * into the history of its shard by the order of commits, not by clocks:
 *
 * - Changes of one lease are serial: each locks the row until it commits, so their `n` rises in that order.
 * - The trigger of a change takes a snapshot *under that lock*. A transaction that locked the row `for share` has committed by then
 *   (PostgreSQL removes a transaction from the list of running ones before it releases its locks), so its writes are
 *   visible in the snapshot. A write that is not visible in it commits after the change took effect.
 * - So a write belongs to the last change whose snapshot does not see it, and must be by the owner that this change set,
 *   and have read that change's fencing token. A write without the lock is seen to come after the change it missed.
 *
 * Inserts into `delivery` are left out: publish makes them, without a lease.
 */
import type { Sql } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { nameOf, type Arrival, type Ledger } from './ledger.ts';

const WRITES = [
  ['delivery', 'update'],
  ['delivery', 'delete'],
  ['delivery_done', 'insert'],
  ['attempt', 'insert'],
  ['webhook_state', 'insert'],
] as const;

/**
 * One row per statement and shard, from its transition table: one per row would cost as much as the write itself. The columns are not named
 * `shard`, because `halcyon shards move` takes the tables with such a column.
 */
export async function startAudit(sql: Sql): Promise<void> {
  await sql.unsafe(`
    create function audit_session() returns text language sql as
      $$ select split_part(regexp_replace(current_setting('application_name'), '^halcyon ', ''), ' ', 1) $$;
    create table audit_lease (
      n bigserial primary key, of_shard smallint, owner bigint, fence bigint, was bigint, seen pg_snapshot, at timestamptz,
      session text
    );
    create table audit_write (
      n bigserial primary key, xid xid8, session text, wrote text, of_shard smallint, rows int, owner bigint, fence bigint,
      at timestamptz
    );
    create table audit_attempt (session text, webhook_id bigint, event_id bigint, n smallint);
    create function audit_attempt() returns trigger language plpgsql as $$ begin
      insert into audit_attempt
      select audit_session(), webhook_id, event_id, n from written;
      return null;
    end $$;
    create trigger audit_each after insert on attempt referencing new table as written
      for each statement execute function audit_attempt();
    create function audit_last_attempt() returns trigger language plpgsql as $$ begin
      -- An older version migrates later, and has no column for the last attempt.
      insert into audit_attempt
      select audit_session(), webhook_id, event_id, attempts from written w where to_jsonb(w) ->> 'outcome' is not null;
      return null;
    end $$;
    create trigger audit_last after insert on delivery_done referencing new table as written
      for each statement execute function audit_last_attempt();
    create function audit_lease() returns trigger language plpgsql as $$ begin
      insert into audit_lease (of_shard, owner, fence, was, seen, at, session)
      values (new.shard, new.owner, new.fence, old.owner, pg_current_snapshot(), clock_timestamp(),
        audit_session());
      return null;
    end $$;
    create function audit_write() returns trigger language plpgsql as $$ begin
      insert into audit_write (xid, session, wrote, of_shard, rows, owner, fence, at)
      select pg_current_xact_id(), audit_session(), tg_table_name || ' ' || lower(tg_op), w.shard,
        count(*), l.owner, l.fence, clock_timestamp()
      from written w join shard_lease l on l.shard = w.shard group by w.shard, l.owner, l.fence;
      return null;
    end $$;
    create trigger audit after update on shard_lease for each row
      when (old.owner is distinct from new.owner or old.fence <> new.fence) execute function audit_lease();
    ${WRITES.map(
      ([table, verb]) => `
        create trigger audit_${verb} after ${verb} on ${table}
        referencing ${verb === 'delete' ? 'old' : 'new'} table as written
        for each statement execute function audit_write();`,
    ).join('')}`);
}

export type StrangeWrite = {
  session: string;
  wrote: string;
  shard: number;
  rows: number;
  read: string;
  ruled: string;
  at: Date;
};

/**
 * Returns writes by a worker that was not the owner, under that fencing token, at that moment. Each life of a worker names its
 * sessions after itself, and the leases that it took show which worker that is.
 */
export async function strangeWrites(sql: Sql): Promise<StrangeWrite[]> {
  const rows = await sql<StrangeWrite[]>`
    with named as (select distinct session, owner as worker from audit_lease where owner is not null)
    select w.session, w.wrote, w.of_shard as shard, w.rows, w.at,
      format('owner %s, fence %s', w.owner, w.fence) as read,
      format('owner %s, fence %s', r.owner, r.fence) as ruled
    from audit_write w
    left join lateral (
      select c.owner, c.fence from audit_lease c
      where c.of_shard = w.of_shard and not pg_visible_in_snapshot(w.xid, c.seen)
      order by c.n desc limit 1
    ) r on true
    where w.session not like 'test%' and not exists (
      select from named
      where named.session = w.session and named.worker = r.owner and r.owner = w.owner and r.fence = w.fence
    )
    order by w.n`;
  return [...rows];
}

/** The lives by the ids of their workers: only the sessions in the home database are named after the life. */
type Lives = ReadonlyMap<string, string>;

export async function readLives(home: Sql): Promise<Lives> {
  const rows = await home<{ worker: number; session: string }[]>`
    select distinct owner as worker, session from audit_lease where owner is not null`;
  return new Map(rows.map(({ worker, session }) => [String(worker), session]));
}

const lifeOf = (lives: Lives, session: string | null | undefined): string => lives.get(session ?? '') ?? session ?? '';

/** An arrival from a worker that did not own the shard, the last changes of its lease before, and the faults of the worker. */
export type StrangeArrival = { arrival: Arrival; owners: string[]; faults: string[] };

/**
 * Returns arrivals from a worker that did not own the shard then, by the clock that PostgreSQL and the test share. The owner sends
 * after its take-over is committed and before it hands back; one that has a fault may finish the attempts that it had started, and
 * starts none.
 */
export async function strangeArrivals(
  databases: readonly Sql[],
  { ledger, lives }: { ledger: Ledger; lives: Lives },
): Promise<StrangeArrival[]> {
  const changes = await Promise.all(
    databases.map(
      (sql) => sql<{ shard: number; session: string | null; at: Date }[]>`
        select of_shard as shard, case when owner is not null then session end as session, at from audit_lease order by n`,
    ),
  );
  const byShard = Map.groupBy(
    changes.flat().toSorted((a, b) => a.at.getTime() - b.at.getTime()),
    ({ shard }) => shard,
  );
  const faults = ledger.faultsByLife();
  return ledger.arrivals.flatMap((arrival) => {
    const { life, delivery, arrivedMs } = arrival;
    const history = byShard.get(shardOf(Number(/^\/(\d+)\//.exec(delivery)?.[1]))) ?? [];
    const isOwnerAt = (atMs: number) =>
      lifeOf(lives, history.findLast(({ at }) => at.getTime() <= performance.timeOrigin + atMs)?.session) === life;
    if (isOwnerAt(ledger.faultBefore(arrival, faults)?.atMs ?? arrivedMs) || isOwnerAt(arrivedMs)) return [];
    const since = (atMs: number) => `${Math.round(atMs - arrivedMs)} ms`;
    return {
      arrival,
      owners: history
        .slice(-6)
        .map(({ session, at }) => `${session} at ${since(at.getTime() - performance.timeOrigin)}`),
      faults: (faults.get(life) ?? []).map(({ what, atMs }) => `${what} at ${since(atMs)}`),
    };
  });
}

/**
 * The attempts that each life has recorded in any of the databases, named as the ledger names its arrivals; without attempts that already
 * existed. A database has attempts, and no webhooks, of shards that have moved away.
 */
export async function recordedAttempts(databases: readonly Sql[], lives: Lives): Promise<ReadonlySet<string>> {
  const inEach = async <T>(read: (sql: Sql) => PromiseLike<readonly T[]>) =>
    (await Promise.all(databases.map(read))).flat();
  const webhooks = await inEach(
    (sql) => sql<{ id: number; path: string }[]>`select id, substring(url from '//[^/]+(/.*)') as path from webhook`,
  );
  const paths = new Map(webhooks.map(({ id, path }) => [id, path]));
  const attempts = await inEach(
    (sql) => sql<{ session: string; webhook: number; id: string; n: number }[]>`
      select a.session, a.webhook_id as webhook, e.resource_id as id, a.n
      from audit_attempt a join event e on e.id = a.event_id`,
  );
  return new Set(
    attempts.map(({ session, webhook, id, n }) =>
      nameOf({ life: lifeOf(lives, session), delivery: `${paths.get(webhook)} ${id}`, attempt: n }),
    ),
  );
}

/** The amount of audited data: a run without a change of ownership proves nothing. */
export async function auditCounts(sql: Sql): Promise<{ writes: number; takeOvers: number }> {
  const [counts] = await sql<{ writes: number; takeOvers: number }[]>`
    select (select count(*) from audit_write) as writes,
      (select count(*) from audit_lease where was is not null and owner is not null) as "takeOvers"`;
  return counts ?? { writes: 0, takeOvers: 0 };
}
