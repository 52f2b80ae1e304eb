-- A developer declares a webhook for an app once. Halcyon makes a row of webhook for it in each store that lets the app in.
create table app_webhook (
  -- Without a foreign key: the last deliveries are sent after the app is deleted.
  client bigint primary key,
  url text not null check (length(url) between 1 and 1000),
  -- Sealed. The rows of webhook have no copy, so a new key is valid in all stores at once.
  key bytea not null,
  date_modified timestamptz not null
);

alter table webhook add column is_for_app boolean not null default false;
-- The scope of the app in the store that its webhook was last sent; null if the app is not installed.
alter table webhook add column app_scope text;
alter table webhook add constraint webhook_app_check
  check (case when is_for_app then client is not null and not is_held else app_scope is null end) not valid;
alter table webhook validate constraint webhook_app_check;
alter table webhook add constraint webhook_key_check
  check (format <> 'json' or encryption_key is not null or is_for_app) not valid;
alter table webhook validate constraint webhook_key_check;
alter table webhook drop constraint webhook_check2;
create unique index webhook_for_app on webhook (shard, store_id, client) where is_for_app;
create index webhook_uninstalled on webhook (date_modified) where is_for_app and app_scope is null;
