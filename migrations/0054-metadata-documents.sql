-- A client may be identified by the https address of its metadata document. It is public, because no document has a secret, and belongs to
-- no person.
alter table client drop constraint client_client_id_check;
alter table client add constraint client_client_id_check check (
  client_id ~ '^[A-Za-z0-9_-]{1,64}$' or (client_id ~ '^https://[!-~]{1,247}$' and is_public and owner is null)
);
