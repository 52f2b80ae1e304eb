-- Webhooks can have the ordering 'resource': a delivery waits until the earlier ones of its resource have ended.
-- A process of the previous version ignores it, so set the first one after the upgrade.
alter table webhook add column ordering text;
-- Not valid first, so that the rows are checked under a lock that permits writes.
alter table webhook add constraint webhook_ordering_check check (ordering = 'resource') not valid;
alter table webhook validate constraint webhook_ordering_check;

-- The order of the pending deliveries of such webhooks. The row of a delivery that has ended orders nothing, and is deleted.
create table delivery_order (
  shard smallint not null,
  delivery_id bigint not null,
  webhook_id bigint not null,
  -- A hash of the type and the id of the resource.
  resource_key bigint not null,
  version integer not null check (version > 0),
  primary key (shard, delivery_id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);
create index delivery_order_resource on delivery_order (shard, webhook_id, resource_key, version);
