-- The hypermedia API, whole: idempotency keys, versions of stores, erasure of stores, and what collections are read by.
-- Everything here is an expansion: what 0002's code writes still fits.

-- http ----------------------------------------------------------------------------------------------------------------

-- An answer that is given again when the same request comes again (Idempotency-Key). `scope` is a SHA-256 over client,
-- user, method, path and key, so that one caller never meets another's answer; `answer` is sealed to it. It is written in
-- the transaction of what was created: a key without an answer is never seen by others, who wait at the primary key.
create table idempotency_key (
  scope        bytea primary key check (length(scope) = 32),
  body_hash    bytea not null check (length(body_hash) = 32),
  answer       bytea,
  date_created timestamptz not null
);
create index idempotency_key_created on idempotency_key (date_created);

-- stores --------------------------------------------------------------------------------------------------------------

-- Rises with each change: what If-Match is compared with.
alter table store add column revision integer not null default 1;

-- A store that was erased: what it leaves behind in big tables is deleted in small batches, then this row.
create table erased_store (
  shard       smallint not null check (shard between 0 and 255),
  id          bigint not null check (id > 0 and id % 256 = shard),
  date_erased timestamptz not null,
  primary key (shard, id)
);

-- oauth ---------------------------------------------------------------------------------------------------------------

-- What ends with a store. Neither column changes while a grant lives, so "last used" stays a HOT update.
create index access_grant_store on access_grant (store_id) where store_id is not null and date_revoked is null;

-- commerce ------------------------------------------------------------------------------------------------------------

-- The order in which people count: 9 before 10, though ids are texts. Neither column changes after the insert, so updates
-- stay HOT.
create index resource_order on resource (shard, store_id, type, length(id), id);

-- A moment that a publisher has written, for the order and the filters of a collection; null where it is none. Casting by
-- itself would end the whole statement at the first text that is no date.
create function moment_of(written text) returns timestamptz language plpgsql stable parallel safe as $$
begin
  if written !~ '^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?$' then
    return null;
  end if;
  return written::timestamptz;
exception when others then
  return null;
end
$$;

-- delivery ------------------------------------------------------------------------------------------------------------

-- What became of an event, over all webhooks.
create index delivery_event on delivery (shard, event_id);
create index delivery_done_event on delivery_done (shard, event_id);
