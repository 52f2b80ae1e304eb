-- Indexes for lists alone. Without statistics of `resource`, which a new database does not have before its first ANALYZE, PostgreSQL took
-- `resource_modified` for the row of an id and read all resources of the type: 2 ms for each event at 12,000 orders, so a first import
-- became slower with each event. It considers a partial index only for statements that have its condition, as lists do
-- (catalog/catalog-sql.ts). The type never changes, so the condition prevents no HOT update.
drop index resource_listed, resource_modified, resource_deleted;
create index resource_listed on resource (shard, store_id, type, length(id), id) where length(type) > 0;
create index resource_modified on resource (shard, store_id, type, modified_day) where length(type) > 0;
create index resource_deleted on resource (shard, store_id, type) where date_deleted is not null and length(type) > 0;
