-- Besides the events of the app itself, an app declares events of its stores: each store that lets it in has a webhook of the app for each
-- resource of these events. `events` is empty if it declares none. `url` is null once the declaration was removed: the webhooks that are not
-- deleted yet are signed with its key.
alter table app_webhook alter column url drop not null;
alter table app_webhook add column events text[] not null default '{}' check (cardinality(events) <= 100);
alter table app_webhook add column query text check (length(query) >= 1 and length(query) <= 1000);
alter table app_webhook add column filter text check (length(filter) >= 1 and length(filter) <= 1000);

-- A change of a declaration that some stores have not followed: `after_shard` and `after_store` are the last store that has. Each database
-- has its own rows, about its own stores.
create table app_webhook_change (
  client          bigint primary key,
  after_shard     smallint not null default -1,
  after_store     bigint not null default 0,
  stores_followed integer not null default 0 check (stores_followed >= 0),
  stores_total    integer not null check (stores_total >= stores_followed)
);

-- A process of the version before cannot let an app in that declares a webhook: its `on conflict` names the columns of the index before.
drop index webhook_for_app;
create unique index webhook_for_app on webhook (client, shard, store_id, event_resource) where is_for_app;

-- The webhook for a resource is active only while the scope of the app in the store, that of all its grants, covers the resource. None
-- covers the events for the operator.
alter table webhook add constraint webhook_scope_check check (
  not is_for_app or not is_active or event_resource = 'app'
  or coalesce(string_to_array(app_scope, ' '), '{}')
    && array['user_full_access', 'store_full_access', 'store_read', 'webhooks', 'events_read', event_resource || ':read']
    and event_resource <> 'operator_event'
);
