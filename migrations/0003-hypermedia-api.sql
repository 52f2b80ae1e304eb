-- The hypermedia API, whole: idempotency keys, versions of stores, erasure of stores, and what collections are read by.
-- Everything here is an expansion: what 0002's code writes still fits.

-- http ----------------------------------------------------------------------------------------------------------------

-- An answer that is given again when the same request comes again (Idempotency-Key). `scope` is a SHA-256 over client,
-- user, method, path and key, so that one caller never meets another's answer; `answer` is sealed to it. It is written in
-- the transaction of what was created: a key without an answer is never seen by others, who wait at the primary key.
create table idempotency_key (
  scope        bytea primary key check (length(scope) = 32),
  body_hash    bytea not null check (length(body_hash) = 32),
  answer       bytea,
  date_created timestamptz not null
);
create index idempotency_key_created on idempotency_key (date_created);

-- stores --------------------------------------------------------------------------------------------------------------

-- Rises with each change: what If-Match is compared with.
alter table store add column revision integer not null default 1;

-- A store that was erased: what it leaves behind in big tables is deleted in small batches, then this row.
create table erased_store (
  shard       smallint not null check (shard between 0 and 255),
  id          bigint not null check (id > 0 and id % 256 = shard),
  date_erased timestamptz not null,
  primary key (shard, id)
);

-- oauth ---------------------------------------------------------------------------------------------------------------

-- What ends with a store. Neither column changes while a grant lives, so "last used" stays a HOT update.
create index access_grant_store on access_grant (store_id) where store_id is not null and date_revoked is null;

-- commerce ------------------------------------------------------------------------------------------------------------

-- There is no index for the order in which people count (9 before 10, though ids are texts): sorting the ids of the primary
-- key takes 20 ms for the page of a store with 100,000 transactions, and each publish would pay for the index (measured
-- with one on length(id), id: 8 % more WAL for an event of 1 KiB, 5 % fewer events a second).

-- A moment and a number that a publisher has written, for the order and the filters of a collection; null where it is none.
-- A cast by itself would end the whole statement at the first text that is no date, and a block that catches its exception
-- cannot run in parallel workers before PostgreSQL 17. Each is written out with what is cheapest first: a store is searched
-- with them (6 µs for a date, 1 µs for anything else).
create function moment_of(written text) returns timestamptz language plpgsql stable parallel safe as $$
begin
  if written not like '____-__-__%' or written like '0000%' or written !~ ('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])'
    || '([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?(Z|[+-](0[0-9]|1[0-4]):?[0-5][0-9])?)?$') then
    return null;
  end if;
  -- 30 February is none.
  if substr(written, 9, 2) > '28' and substr(written, 9, 2)::int
    > extract(day from make_date(substr(written, 1, 4)::int, substr(written, 6, 2)::int, 1) + interval '1 month - 1 day') then
    return null;
  end if;
  return written::timestamptz;
end
$$;

create function number_of(written text) returns numeric language plpgsql immutable parallel safe as $$
begin
  if written !~ '^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9][0-9]?[0-9]?)?$' or length(written) > 60 then
    return null;
  end if;
  return written::numeric;
end
$$;

-- delivery ------------------------------------------------------------------------------------------------------------

-- What became of an event, over all webhooks. Event ids rise with the order in which deliveries end but for those that were
-- tried again, so a summary of each 16 pages is enough: 0.8 ms among a million rows, 0.3 MB where a B-tree has 41 MB, and
-- next to nothing when a row is written. What is pending is little and in one place; an index of it by event cost a publish
-- 4 % more WAL, and without one 200,000 rows are read in 13 ms.
create index delivery_done_event on delivery_done using brin (event_id int8_minmax_multi_ops) with (pages_per_range = 16);
