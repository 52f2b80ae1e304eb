-- Events for the operator (setting PLATFORM_STORE), from the transaction of what happened until a process has published them in the platform
-- store, which may be in another database. `body` has what the event is about. Without the setting there are none; retention deletes those
-- that were not published for 30 days, because the platform store does not exist.
create table operator_outbox (
  id bigint generated always as identity primary key,
  action text not null check (length(action) between 1 and 100),
  body json not null,
  date_created timestamptz not null
);
create index operator_outbox_created on operator_outbox (date_created);

-- Until when failed deliveries were counted for the operator: one row, and none before the first count.
create table operator_hour (
  is_only boolean primary key default true check (is_only),
  counted_until timestamptz not null
);
