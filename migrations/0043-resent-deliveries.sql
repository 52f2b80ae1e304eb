-- What did not arrive: an event whose last delivery to a webhook has failed. `resent_as` of an ended delivery is the last one that sent the
-- event to the webhook again, by a resend or a recovery; earlier ones are re-pointed to it. A column, because a table of resent deliveries
-- would be read for each failed one, of which a webhook can have 100,000. Rows of deliveries that succeed are in neither index.
alter table delivery_done add column resent_as bigint;
create index delivery_done_not_arrived on delivery_done (shard, webhook_id, id) where state = 'failed' and resent_as is null;
create index delivery_done_resent on delivery_done (shard, resent_as) where resent_as is not null;
-- Deliveries of the time before: of those of an event whose delivery failed, the last one.
with again as (
  select d.shard, d.webhook_id, d.event_id, max(d.id) as id
  from (select shard, webhook_id, event_id, id from delivery_done union all select shard, webhook_id, event_id, id from delivery) as d
  join (select distinct shard, webhook_id, event_id from delivery_done where state = 'failed') as f
    on f.shard = d.shard and f.webhook_id = d.webhook_id and f.event_id = d.event_id
  group by d.shard, d.webhook_id, d.event_id having count(*) > 1
)
update delivery_done d set resent_as = again.id
from again
where d.shard = again.shard and d.webhook_id = again.webhook_id and d.event_id = again.event_id and d.id < again.id;
