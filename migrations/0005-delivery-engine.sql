-- The delivery engine: what a lane remembers of its breaker, what is known of a delivery that hurts who sends it, and which
-- key a process needs to deliver at all.
-- Expands only: 0004's code goes on beside it, and leaves the new columns as they are.

-- Faults of our own in a row, in 30 s each: a render that throws weighs as much as six hours of a resolver that is down.
alter table delivery add column faults smallint not null default 0 check (faults >= 0);

-- While the breaker is open: when the next attempt may be made, one at a time.
alter table webhook_state add column probe_at timestamptz;
-- An outcome demands that the webhook is switched off. Written with the outcome and done after it: whoever finds it makes
-- up for what its predecessor did not live to do. The numbers beside it do not tell: they have no time of the last failure.
alter table webhook_state add column is_condemned boolean not null default false;

-- How many owners in a row died holding the shard; an owner that hands it back, or lives with it, makes it 0. From the
-- second on the owner notes what it is about to send (delivery_suspect), so that what kills its owners can be told apart.
alter table shard_lease add column deaths smallint not null default 0 check (deaths >= 0);

-- What is being sent in a shard whose owners die: noted before, removed with the record. What stands here with the fence of
-- an owner that died was in flight, and `deaths` counts how often. Innocent ones are sent the next time; the one that kills
-- is put aside.
create table delivery_suspect (
  shard       smallint not null,
  delivery_id bigint not null,
  -- Of the owner who sent it last.
  fence       bigint not null,
  deaths      smallint not null default 0 check (deaths >= 0),
  primary key (shard, delivery_id)
);

-- The id of the key that secrets are sealed with, as it stands in each envelope: a process that has another would take
-- shards and could open nothing. One row, from the first start on.
create table sealing_key (
  key_id bytea primary key check (length(key_id) = 4)
);
create unique index sealing_key_one on sealing_key ((true));
-- A database that is in use has it already: the first process of this version may be the one with the wrong key.
insert into sealing_key (key_id)
select substring(encryption_key from 2 for 4) from webhook where encryption_key is not null
order by date_modified desc limit 1;
