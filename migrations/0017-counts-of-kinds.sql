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

-- The date in the index of a store's events: the events of a day are counted from the index alone. Costs 8 bytes an event. Building
-- it reads the events once; meanwhile publishing waits.
create index event_store_dated on event (shard, store_id, id desc) include (date_created);
drop index event_store;

-- Resources in the order of their lists. An update writes it no more often than the primary key; a new resource costs 48 bytes.
create index resource_listed on resource (shard, store_id, type, length(id), id);
