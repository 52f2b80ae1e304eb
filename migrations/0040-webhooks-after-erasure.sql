-- The webhook that an app declares outlives its store until `app/store_erased` is delivered, so the row of the store no longer deletes it
-- by a cascade. An erasure deletes the other webhooks by a statement, as it did before; a purge deletes what is left of erased stores.
alter table webhook drop constraint webhook_shard_store_id_fkey;
