-- How many rows a list has of each day, counted once, when no row of the day can be added any more: a list of 355,000 deliveries was
-- counted for each page. `owner_id` is the store of events and the webhook of deliveries and attempts; 0 marks the counted days of a
-- shard. `db/day-counts.ts` writes the rows, and deletes them before the partitions of the day are dropped.
create table day_count (
  shard smallint not null,
  owner_id bigint not null,
  list text not null check (list in ('event', 'delivery', 'attempt')),
  day integer not null,
  rows bigint not null check (rows >= 0),
  primary key (shard, owner_id, list, day)
);
create index day_count_day on day_count (day);

-- Searches for what went wrong. A delivery that succeeds at once is in neither index.
create index delivery_done_failed on delivery_done (shard, webhook_id, id) where state = 'failed';
create index delivery_done_retried on delivery_done (shard, webhook_id, id) where attempts > 1;
