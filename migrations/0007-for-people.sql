-- What people are shown of their webhooks without counting a million attempts, and webhooks that a listener on somebody's laptop
-- fetches from.
-- Expands only: 0006's code goes on beside it. It leaves no hours, and hands a held webhook's deliveries to nobody.

-- How the attempts of a webhook went, hour by hour (UTC). Workers count in memory and add what they have every few seconds, so
-- that no attempt costs a statement more; who dies takes its last seconds along: it is for charts, and nothing follows from it.
create table webhook_hour (
  shard       smallint not null,
  webhook_id  bigint not null check (webhook_id % 256 = shard),
  hour        timestamptz not null,
  -- As attempt.outcome has it.
  outcome     text not null,
  attempts    bigint not null check (attempts > 0),
  -- How many took how long: the bounds are the code's (src/core/histogram.ts), the last has none.
  durations   bigint[] not null,
  primary key (shard, webhook_id, hour, outcome)
);
create index webhook_hour_ended on webhook_hour (hour);

-- A held webhook has no address: its deliveries wait for a listener, with due_at = 'infinity', where no lane ever finds them. It
-- is somebody's for an afternoon, and is deleted when nobody has listened for a day.
alter table webhook
  add column is_held boolean not null default false,
  add column listened_at timestamptz,
  add constraint webhook_held_check check (is_held = (listened_at is not null) and not (is_held and url is not null));
create index webhook_listened on webhook (listened_at) where is_held;
