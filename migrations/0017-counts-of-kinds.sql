-- How many rows a list has of each day and kind of event, counted with those of day_count: the deliveries of one kind among 355,000
-- were counted by reading the events of all. Only deliveries of the day of their event are in it; later ones have an index of their
-- own. `kind` is empty in the rows with the owner 0, which mark the counted days of a shard.
create table day_kind_count (
  shard smallint not null,
  owner_id bigint not null,
  list text not null check (list in ('event', 'delivery')),
  day integer not null,
  kind text not null,
  rows bigint not null check (rows >= 0),
  primary key (shard, owner_id, list, day, kind)
);
create index day_kind_count_day on day_kind_count (day);

-- The date and the kind in the index of a store's events: the events of a day, and those of a kind on the days that are not counted
-- yet, are found in the index alone. Costs some 28 bytes an event. Building it reads the events once; meanwhile publishing waits.
create index event_store_dated on event (shard, store_id, id desc) include (date_created, resource_type, action);
drop index event_store;

-- Lists of resources by what they belong to, such as the transactions of a customer: all transactions of a store were read, 0.9 s for
-- 330,000. The column is computed from the published JSON, whichever version writes it: 2.3 µs for 1 KB. An index on `modified_at` is
-- left out: an update would write every index of the table, 180 µs of PostgreSQL's time instead of 143, while this column rarely
-- changes. Adding it rewrites the table, about 15 s a million resources; meanwhile publishing waits.
alter table resource
  add column parent_id text generated always as (left(
    case type
      when 'transaction' then body::json ->> 'customer_id'
      when 'subscription' then body::json ->> 'customer_id'
      when 'transaction_log' then body::json ->> 'transaction_id'
      when 'subscription_event' then body::json ->> 'subscription_id'
    end, 64)) stored;
create index resource_parent on resource (shard, store_id, type, parent_id) where parent_id is not null;

-- Resources in the order of their lists. Costs a new resource 48 bytes, and an update nothing.
create index resource_listed on resource (shard, store_id, type, length(id), id);
