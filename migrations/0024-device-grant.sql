-- The device authorization grant (RFC 8628). A row waits for the decision of a person. An approval deletes it and inserts a row of
-- authorization_code with the same hash, so that an approved device code is redeemed once, expires and is purged like any other code. It has no
-- redirect address. A user code has only 35 bits, so its hash is an HMAC under a key of the server.
create table device_authorization (
  hash bytea primary key check (length(hash) = 32),
  user_code_hash bytea not null unique check (length(user_code_hash) = 32),
  client bigint not null references client (id) on delete cascade,
  scope text not null check (length(scope) <= 1000),
  interval_seconds smallint not null check (interval_seconds > 0),
  date_expires timestamptz not null,
  date_polled timestamptz,
  date_denied timestamptz
);
create index device_authorization_expires on device_authorization (date_expires);
create index device_authorization_client on device_authorization (client);

alter table authorization_code alter column redirect_uri drop not null;

-- Which clients may use the grant: those that have registered for it, and the command line. The token with which a registered client
-- manages its registration (RFC 7592).
alter table client
  add column allows_device_grant boolean not null default false,
  add column management_token_hash bytea unique check (length(management_token_hash) = 32);
update client set allows_device_grant = true where client_id = 'halcyon-cli';
