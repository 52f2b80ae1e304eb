-- What did not arrive: an event whose last delivery to a webhook has failed. `resent_as` of an ended delivery is the last one that sent the
-- event to the webhook again, by a resend or a recovery; earlier ones are re-pointed to it. A column, because a table of resent deliveries
-- would be read for each failed one, of which a webhook can have 100,000. Rows of deliveries that succeed are in neither index.
alter table delivery_done add column resent_as bigint;
create index delivery_done_lost on delivery_done (shard, webhook_id, id) where state = 'failed' and resent_as is null;
create index delivery_done_resent on delivery_done (shard, resent_as) where resent_as is not null;
