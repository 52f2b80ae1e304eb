-- Moves of shards to another database, in the home database. A move is deleted when its rows in the source are deleted.
create table shard_move (
  id            integer generated always as identity primary key,
  shards        smallint[] not null check (cardinality(shards) > 0),
  source        smallint not null references shard_database,
  target        smallint not null references shard_database check (target <> source),
  date_started  timestamptz not null default now(),
  -- Since then the target is the owner.
  date_switched timestamptz,
  -- Since then the source has only the rows, which are not replicated any more.
  date_ended    timestamptz check (date_ended >= date_switched)
);
create unique index shard_move_open on shard_move ((true)) where date_ended is null;

-- In the source of a move: shards whose rows no transaction may change, because they are in another database, or soon will be.
create table moved_shard (
  shard         smallint primary key check (shard between 0 and 255),
  -- The fencing token of the lease that was deleted.
  fence         bigint not null,
  -- Since then retention and cascades may delete the rows. Null: the move may still be undone.
  date_switched timestamptz
);

-- The trigger of a move on each table with rows of its shards. Each writer locks the move (the argument), so that the move can wait
-- for running writers.
create function refuse_moved() returns trigger language plpgsql as $$
declare
  moving smallint := coalesce(new.shard, old.shard);
  moved  moved_shard;
begin
  perform pg_advisory_xact_lock_shared(7209005, tg_argv[0]::int);
  select * into moved from moved_shard where shard = moving;
  if not found or (tg_op = 'DELETE' and moved.date_switched is not null) then
    return coalesce(new, old);
  end if;
  -- The home database keeps the rows of all stores, and sends their changes to the owner of the shard.
  if tg_table_name in ('store', 'erased_store') and exists (select from shard_owner where shard = moving and database <> 0) then
    return coalesce(new, old);
  end if;
  raise exception 'shard % moves to another database', moving using errcode = 'HS001';
end $$;

-- The shard of the store or webhook in the address of the request: rows with a shard move with it. The primary key is the hash alone, so
-- updates and deletes are replicated with all columns.
alter table idempotency_key add column shard smallint check (shard between 0 and 255);
alter table idempotency_key replica identity full;
