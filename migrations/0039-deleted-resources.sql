-- Set when the latest version of a resource is its deletion: the date of the deletion, as the platform gives it or else of its publication.
-- The row stays, because versions that arrive later continue its numbers and are compared with its date.
alter table resource add column date_deleted timestamptz;
-- Lists leave deleted resources out. They are few, so this index is small, and it is written only for them; to make it, the table is read
-- once, during which publishing waits.
create index resource_deleted on resource (shard, store_id, type) where date_deleted is not null;
