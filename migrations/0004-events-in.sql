-- Events in: what a publish remembers, the order of versions, the chain of a resource's events, and what Halcyon derives
-- and counts by itself. What 0003's code writes still fits in, but what it writes after this has no place in a chain and
-- derives nothing, so no erasure would find it: stop processes of the version before, then migrate (docs/operating.md).

-- stores --------------------------------------------------------------------------------------------------------------

-- Who writes subscription_event: Halcyon, from two versions of a subscription, or the platform.
alter table store add column subscription_events text not null default 'derived'
  check (subscription_events in ('derived', 'published'));

-- commerce ------------------------------------------------------------------------------------------------------------

-- What a version took the place of is kept beside it, because a statement that overwrites a row is told the new values
-- alone (`returning old` is PostgreSQL 18's). With it the events of a batch know which of them were ever the latest.
alter table resource
  -- Whether modified_at is the publisher's own word. Only what is dated is compared, with the newest date that there was:
  -- without one nobody can know that an event is older.
  add column is_dated            boolean not null default true,
  add column dated_at            timestamptz,
  add column superseded_dated_at timestamptz,
  -- The newest event about this resource, also where it was an older version; the chain goes on in event.previous_id.
  add column head_event_id       bigint,
  add column superseded_event_id bigint,
  -- Of a subscription, the newest step that was derived from it; of a step, the one before it. Its id is that of its event.
  -- So an erased subscription takes them along, also those whose events' days were dropped long ago.
  add column step_id             bigint;
update resource set dated_at = moment_of(body::json ->> 'date_modified');
update resource set is_dated = dated_at is not null;

-- events --------------------------------------------------------------------------------------------------------------

-- The event about the same resource before this one: so an erasure finds them all by their keys. An index on the resource
-- would cost every publish a row in a tree of random order, this costs eight bytes.
-- `version` is 0 for an older version, which was never the latest; all others of a resource rise.
alter table event add column previous_id bigint;
-- For what is there: once, and by reading all events.
update event e set previous_id = b.previous_id
from (
  select shard, id, lag(id) over (partition by shard, store_id, resource_type, resource_id order by id) as previous_id
  from event
) b
where b.shard = e.shard and b.id = e.id and b.previous_id is not null;
update resource r set head_event_id = coalesce(h.id, r.event_id)
from resource o left join (
  select shard, store_id, resource_type, resource_id, max(id) as id from event group by 1, 2, 3, 4
) h on h.shard = o.shard and h.store_id = o.store_id and h.resource_type = o.type and h.resource_id = o.id
where o.shard = r.shard and o.store_id = r.store_id and o.type = r.type and o.id = r.id;

-- What was published under an idempotency key. The unique key must not hang on a day, so this is a table of its own.
create table publish_key (
  shard        smallint not null,
  store_id     bigint not null,
  key          text not null check (length(key) between 1 and 255),
  fingerprint  bytea not null check (length(fingerprint) = 32),
  event_ids    bigint[] not null check (cardinality(event_ids) > 0),
  date_created timestamptz not null,
  primary key (shard, store_id, key)
);
create index publish_key_created on publish_key (date_created);

-- Ends the statement in which somebody else was faster: whoever wrote it looks again, and then sees what the other did.
create function unless_overtaken(done bigint, wanted bigint) returns boolean language plpgsql as $$
begin
  if done < wanted then
    raise exception 'overtaken by a publish of the same idempotency key' using errcode = 'HL001';
  end if;
  return true;
end
$$;

-- Recurring revenue ---------------------------------------------------------------------------------------------------

-- What a subscription brings in a month from a day on, as it was known at the end of that day (in the store's time zone):
-- one row for each day on which it changed. A day that is closed (revenue_book.open_day) is never written again.
create table subscription_term (
  shard           smallint not null,
  store_id        bigint not null,
  subscription_id text not null check (length(subscription_id) between 1 and 64),
  day             date not null,
  currency        text not null check (currency ~ '^[A-Z]{3}$'),
  monthly         numeric(24, 6) not null check (monthly >= 0),
  is_active       boolean not null,
  -- Active from start_day on and no longer on end_day.
  start_day       date,
  end_day         date,
  primary key (shard, store_id, subscription_id, day)
);

-- Where the daily snapshots of a store stand: days before open_day take no more changes, next_day is the next to be told of.
-- A publish of a subscription holds the row `for share`, so that a day is closed when all that belongs to it is written.
create table revenue_book (
  shard    smallint not null,
  store_id bigint not null,
  open_day date not null,
  next_day date not null,
  -- When next_day is over for sure and its snapshot may be made.
  due_at   timestamptz not null,
  primary key (shard, store_id),
  check (next_day <= open_day)
);
create index revenue_book_due on revenue_book (shard, due_at);

-- The days that have a snapshot: never two for one day.
create table revenue_day (
  shard       smallint not null,
  store_id    bigint not null,
  day         date not null,
  resource_id text not null,
  primary key (shard, store_id, day)
);

-- Erasure -------------------------------------------------------------------------------------------------------------

-- Customers that were erased and whose copies in other resources and their events are still being looked for, and where
-- that stands: first the resources in the order of their key, then the events from the newest to the oldest.
create table erased_customer (
  shard           smallint not null,
  store_id        bigint not null,
  id              text not null check (length(id) between 1 and 64),
  date_erased     timestamptz not null,
  after_type      text not null default '',
  after_id        text not null default '',
  -- Null while resources are looked through.
  before_event_id bigint,
  primary key (shard, store_id, id)
);

-- Events of which something was erased, until the answers of those who had received them are gone as well.
create table erased_event (
  shard       smallint not null,
  id          bigint not null,
  store_id    bigint not null,
  date_erased timestamptz not null,
  primary key (shard, id)
);
create index erased_event_date on erased_event (date_erased);

-- The version that a resource had when it was erased: if the publisher tells of it again, versions go on from there, so
-- that no receiver takes what is new for old.
create table erased_resource (
  shard    smallint not null,
  store_id bigint not null,
  type     text not null,
  id       text not null,
  version  integer not null check (version > 0),
  -- The step before an erased one: those of its subscription are found across it.
  step_id  bigint,
  primary key (shard, store_id, type, id)
);

-- Ends a publish that began before an erasure and wrote after it: it could not see the version that was left behind, though
-- whoever waits for a row that is then deleted inserts it anew. `floors`: the version that it saw, 0 for none.
-- A generic plan: as it is, each call is planned anew, which took 0.1 ms of a publish of 0.4. With it, 0.02.
create function unless_erased(shards smallint[], stores bigint[], types text[], ids text[], floors integer[])
returns boolean language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  if exists (
    select from unnest(shards, stores, types, ids, floors) as n (shard, store_id, type, id, floor)
    cross join lateral (
      select version from erased_resource
      where shard = n.shard and store_id = n.store_id and type = n.type and id = n.id limit 1
    ) as e
    where e.version > n.floor
  ) then
    raise exception 'overtaken by an erasure of the same resource' using errcode = 'HL001';
  end if;
  return true;
end
$$;

-- Where the erasure of a resource with very many events goes on, for the case that nobody is at it any more.
create table erased_chain (
  shard       smallint not null,
  -- The newest event of the resource.
  id          bigint not null,
  store_id    bigint not null,
  event_id    bigint,
  step_id     bigint,
  date_erased timestamptz not null,
  primary key (shard, id),
  check (event_id is not null or step_id is not null)
);
