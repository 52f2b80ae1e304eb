-- The map of shards over several databases. Its rows are in the home database; without rows the home database owns all shards.
create table shard_database (
  -- 0: the home database
  id       smallint primary key check (id >= 0),
  name     text not null unique,
  identity uuid not null unique,
  -- The sealed url; null for the home database, which is DATABASE_URL.
  address  bytea check ((address is null) = (id = 0))
);
create table shard_map (
  is_only boolean primary key default true check (is_only),
  version bigint not null check (version > 0),
  date_created timestamptz not null default clock_timestamp()
);
create table shard_owner (
  shard    smallint primary key check (shard between 0 and 255),
  database smallint not null references shard_database
);

-- Recognizes a database under each of its addresses. `home` is the identity of the home database whose map it is in.
create table database_identity (
  is_only  boolean primary key default true check (is_only),
  identity uuid not null,
  home     uuid
);
insert into database_identity (identity) values (gen_random_uuid());

-- Changes of the home database that other databases still have to apply, in the order of their ids.
create table outbox (
  id           bigint generated always as identity primary key,
  database     smallint not null references shard_database,
  -- Null: the change concerns all shards of the database.
  shard        smallint check (shard between 0 and 255),
  kind         text not null check (kind in ('store', 'changelog', 'access', 'resume', 'app')),
  -- Keeps the order of members, which entries of the changelog show.
  body         json not null,
  date_created timestamptz not null default now()
);
create index outbox_by_database on outbox (database, id);

-- In the other databases: the ids of changes that are applied, until they are deleted from the outbox.
create table outbox_applied (id bigint primary key);

-- Other databases have copies of their stores, and no users.
alter table store drop constraint store_sandbox_of_fkey;

create function enqueue_store() returns trigger language plpgsql as $$
begin
  -- Processes read the map each second. One with the old map would write the rows of the new store into this database.
  if tg_op = 'INSERT' and exists (select from shard_owner where shard = new.shard and database <> 0)
    and exists (select from shard_map where date_created > clock_timestamp() - interval '3 seconds')
  then
    raise exception 'shard % has just got another database: try again in a few seconds', new.shard using errcode = 'HS001';
  end if;
  insert into outbox (database, shard, kind, body)
  select database, shard, 'store', json_build_object('store_id', coalesce(new.id, old.id))
  from shard_owner where shard = coalesce(new.shard, old.shard) and database <> 0;
  return null;
end $$;
create trigger enqueue_store after insert or update or delete on store for each row execute function enqueue_store();

create function enqueue_app_webhook() returns trigger language plpgsql as $$
begin
  insert into outbox (database, kind, body)
  select id, 'app', json_build_object('client', coalesce(new.client, old.client)) from shard_database where id <> 0 order by id;
  return null;
end $$;
create trigger enqueue_app_webhook after insert or update or delete on app_webhook
  for each row execute function enqueue_app_webhook();
