-- What an attempt sent, for display: an attempt stores the revision of the webhook with whose settings it was made (4 bytes, 0.2 µs), and a
-- row of webhook_version has the settings of earlier revisions. The event is frozen, so both give its request. Null: an attempt of before, or
-- of a process of the version before.
alter table attempt add column webhook_revision integer;
alter table delivery_done add column webhook_revision integer;
create or replace view attempt_log as
select shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome, response_code, response_headers,
  response_body, webhook_revision
from attempt
union all
select shard, id, attempts, store_id, webhook_id, event_id, date_started, duration_ms, outcome, response_code, response_headers,
  response_body, webhook_revision
from delivery_done;

-- The first revision with the present settings of the request and the present keys.
alter table webhook add column request_since integer not null default 0;
-- When the last rotation ended by time: attempts before it have signatures of the key that it has replaced, too.
alter table webhook add column rotated_at timestamptz;
alter table app_webhook add column rotated_at timestamptz;

-- Settings of a webhook that a change has replaced, as far as they make the request. Keys are not kept: a replaced key is removed so that no
-- later backup contains it.
create table webhook_version (
  shard           smallint not null,
  webhook_id      bigint not null,
  -- The first and the last revision with these settings.
  since           integer not null,
  revision        integer not null,
  format          text not null,
  url             text,
  query           text,
  event_resource  text,
  headers         jsonb not null,
  -- Sealed, bound to the webhook like its own.
  request_secrets bytea,
  -- Whether requests were made with a key, and whether the change has replaced it.
  has_key         boolean not null,
  is_rekeyed      boolean not null,
  date_replaced   timestamptz not null,
  primary key (shard, webhook_id, revision),
  foreign key (shard, webhook_id) references webhook on delete cascade,
  check (since <= revision)
);
create index webhook_version_replaced on webhook_version (date_replaced);

-- A trigger, because processes of the version before change webhooks too during an upgrade. Statements that leave the revision do not
-- change the request: new envelopes of the same secrets, and the key after its rotation. A webhook keeps its last 100 versions.
create function keep_webhook_version() returns trigger language plpgsql as $$
begin
  delete from webhook_version v
  where v.shard = old.shard and v.webhook_id = old.id and v.revision <= (
    select n.revision from webhook_version n where n.shard = old.shard and n.webhook_id = old.id
    order by n.revision desc offset 99 limit 1
  );
  insert into webhook_version (shard, webhook_id, since, revision, format, url, query, event_resource, headers, request_secrets, has_key,
    is_rekeyed, date_replaced)
  values (old.shard, old.id, old.request_since, old.revision, old.format, old.url, old.query, old.event_resource, old.headers,
    old.request_secrets, old.is_for_app or old.encryption_key is not null,
    (old.encryption_key, old.next_encryption_key) is distinct from (new.encryption_key, new.next_encryption_key), new.date_modified);
  new.request_since := new.revision;
  return new;
end $$;
create trigger keep_version before update on webhook for each row when (
  old.revision <> new.revision
  and (old.format, old.url, old.query, old.event_resource, old.headers, old.request_secrets, old.encryption_key, old.next_encryption_key)
    is distinct from
    (new.format, new.url, new.query, new.event_resource, new.headers, new.request_secrets, new.encryption_key, new.next_encryption_key)
) execute function keep_webhook_version();
