-- The keys that the clients of the platform give to resources (`external_id`), so that a program that provisions them can be repeated. Each
-- client has its own keys, and sees no others. A table of its own, because the copies of stores in other databases have no keys, and
-- because a column of `store` would need an index, whose creation blocks writes.
create table external_key (
  client      bigint not null references client on delete cascade,
  resource    text collate "C" not null check (resource in ('store', 'user', 'client')),
  key         text collate "C" not null check (length(key) >= 1 and length(key) <= 64),
  -- Null only in the transaction that makes the resource: it inserts the key first, so that this index decides which of two requests does.
  resource_id bigint,
  primary key (client, resource, key)
);
create unique index external_key_resource on external_key (resource, resource_id, client);

-- Increases with each change of what the API shows of a user, for conditional requests.
alter table users add column revision integer not null default 0;
