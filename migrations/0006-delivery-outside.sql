-- What leaves the house, and how what was missed is got back: a key that takes over from another, a warning before a webhook
-- is switched off, and the recovery of events as a job that is stored.
-- Expands only: 0005's code goes on beside it, signs with the key that a rotation began with, and leaves the rest as it is.

-- While a key is rotated: the one that takes over, sealed as encryption_key is and to the same row, and when it does. From
-- then on it is the key, whether somebody has moved it to encryption_key yet or not.
alter table webhook
  add column next_encryption_key bytea,
  add column rotation_ends_at timestamptz,
  add constraint webhook_rotation_check check (
    (next_encryption_key is null) = (rotation_ends_at is null)
    and (next_encryption_key is null or encryption_key is not null)
  );
create index webhook_rotation_ends on webhook (rotation_ends_at) where rotation_ends_at is not null;

-- The store was warned that the webhook is half the way to being switched off. Goes with the failures that it counts.
alter table webhook_state add column is_warned boolean not null default false;

-- What an owner that died has left undone is found without its having work.
create index webhook_state_condemned on webhook_state (shard) where is_condemned;

-- Events since a moment, brought to a webhook that missed them. The owner of the shard works at it, page by page; a page
-- and the place where it ends are one transaction, so that whoever goes on makes no delivery twice.
create table recovery (
  shard            smallint not null,
  id               bigint not null check (id > 0 and id % 256 = shard),
  store_id         bigint not null check (store_id % 256 = shard),
  webhook_id       bigint not null,
  -- The webhook's when this was asked for: a later one says that it was switched off meanwhile.
  epoch            integer not null,
  since            timestamptz not null,
  -- waiting: a transaction from before it may still commit an event. stopped: the webhook was switched off meanwhile.
  state            text not null check (state in ('waiting', 'running', 'finished', 'cancelled', 'stopped')),
  -- Transactions of ours that were open when this was asked for (virtualxid of pg_locks, which PostgreSQL gives out once while
  -- it runs): they may not know that the webhook is on again, and what they commit has to be there before it is looked through.
  older_transactions text[] not null,
  -- Looked through up to this event and with it; 0 before the start.
  after_event_id   bigint not null default 0,
  -- The last to look at. Those after it have deliveries by themselves.
  until_event_id   bigint,
  -- How many events of the store there were to look through, how many were, and for how many a delivery was made.
  events_total     integer not null default 0 check (events_total >= 0),
  events_seen      integer not null default 0 check (events_seen >= 0),
  events_recovered integer not null default 0 check (events_recovered >= 0),
  date_created     timestamptz not null,
  date_modified    timestamptz not null,
  date_ended       timestamptz,
  primary key (shard, id),
  foreign key (shard, webhook_id) references webhook on delete cascade,
  check ((date_ended is null) = (state in ('waiting', 'running'))),
  check (state <> 'running' or until_event_id is not null)
);
create unique index recovery_open on recovery (shard, webhook_id) where state in ('waiting', 'running');
create index recovery_webhook on recovery (shard, webhook_id, id desc);
create index recovery_ended on recovery (date_ended) where date_ended is not null;
