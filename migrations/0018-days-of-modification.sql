-- The day of `modified_at`, counted from 2020-01-01 in UTC as in ids, so that a filter on a date of modification reads the resources of
-- its days and not all of a type. An index on `modified_at` itself was rejected in 0017, because every update would write all indexes
-- of the table; the day changes only when a resource is modified on another day than before. PostgreSQL computes the column, whichever
-- version writes the row. Adding it rewrites the table, about 15 s a million resources; meanwhile publishing waits.
alter table resource
  add column modified_day integer generated always as ((modified_at at time zone 'UTC')::date - date '2020-01-01') stored;
create index resource_modified on resource (shard, store_id, type, modified_day);
