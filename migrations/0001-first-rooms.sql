-- The tables of the first slice, in their final form. Three rules hold for every one of them:
--   * a table that belongs to a store has `shard` first in its primary key, and no foreign key or unique key lacks it;
--   * a state that must not exist cannot be stored (CHECK);
--   * no foreign key to or between the hot tables (event, delivery, delivery_done, attempt, webhook_state).

-- Numbers for ids. Gaps are welcome, reuse is not: a sequence never steps back, also when a transaction does.
create sequence id_n as bigint;
-- The 30-bit part of ids that carry their day; it may wrap, the day has moved on by then (1,073,741,824 a day).
create sequence event_n as bigint minvalue 0 maxvalue 1073741823 cycle increment by 1024;
create sequence delivery_n as bigint minvalue 0 maxvalue 1073741823 cycle cache 32;

-- accounts ------------------------------------------------------------------------------------------------------------

create table users (
  id            bigint primary key check (id > 0),
  email         text not null check (length(email) between 3 and 254),
  password_hash text not null,
  date_created  timestamptz not null
);
create unique index users_email on users (lower(email));

-- A session is found by the SHA-256 of its cookie; the cookie itself is nowhere.
create table session (
  hash         bytea primary key check (length(hash) = 32),
  user_id      bigint not null references users on delete cascade,
  date_created timestamptz not null,
  date_expires timestamptz not null
);
create index session_user_id on session (user_id);
create index session_expires on session (date_expires);

-- stores --------------------------------------------------------------------------------------------------------------

create table store (
  shard         smallint not null check (shard between 0 and 255),
  id            bigint not null check (id > 0 and id % 256 = shard),
  name          text not null check (length(name) between 1 and 255),
  domain        text not null check (length(domain) between 1 and 253),
  email         text not null,
  time_zone     text not null,
  date_created  timestamptz not null,
  date_modified timestamptz not null,
  primary key (shard, id)
);

create table membership (
  shard        smallint not null,
  store_id     bigint not null,
  user_id      bigint not null references users on delete cascade,
  role         text not null check (role in ('owner', 'member')),
  date_created timestamptz not null,
  primary key (shard, store_id, user_id),
  foreign key (shard, store_id) references store on delete cascade
);
create index membership_user on membership (user_id);

-- oauth ---------------------------------------------------------------------------------------------------------------

create table client (
  id            bigint primary key check (id > 0),
  client_id     text not null unique check (client_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  name          text not null check (length(name) between 1 and 255),
  company       text check (length(company) <= 255),
  description   text check (length(description) <= 1000),
  redirect_uris text[] not null check (cardinality(redirect_uris) <= 20),
  -- Marked by the operator: may use client_credentials with the scope platform.
  trusted       boolean not null,
  date_created  timestamptz not null,
  check (trusted or cardinality(redirect_uris) > 0)
);

-- Two rows while a rotation overlaps. Secrets are random, so SHA-256 is enough.
create table client_secret (
  hash         bytea primary key check (length(hash) = 32),
  client       bigint not null references client on delete cascade,
  date_created timestamptz not null,
  date_expires timestamptz
);
create index client_secret_client on client_secret (client);

-- One approval by one user (or the platform's own standing, without a user). All tokens hang on it; ending it ends them.
create table access_grant (
  id           bigint primary key check (id > 0),
  client       bigint not null references client on delete cascade,
  user_id      bigint references users on delete cascade,
  scope        text not null check (scope in ('store_full_access', 'user_full_access', 'platform')),
  store_id     bigint,
  date_created timestamptz not null,
  date_revoked timestamptz,
  check ((scope = 'store_full_access') = (store_id is not null)),
  check ((scope = 'platform') = (user_id is null))
);
create index access_grant_user on access_grant (user_id);
create index access_grant_client on access_grant (client);

create table authorization_code (
  hash           bytea primary key check (length(hash) = 32),
  grant_id       bigint not null references access_grant on delete cascade,
  redirect_uri   text not null,
  code_challenge text check (length(code_challenge) = 43),
  date_expires   timestamptz not null,
  used_at        timestamptz
);
create index authorization_code_grant on authorization_code (grant_id);
create index authorization_code_expires on authorization_code (date_expires);

create table access_token (
  hash         bytea primary key check (length(hash) = 32),
  grant_id     bigint not null references access_grant on delete cascade,
  date_expires timestamptz not null
);
create index access_token_grant on access_token (grant_id);
create index access_token_expires on access_token (date_expires);

create table refresh_token (
  hash         bytea primary key check (length(hash) = 32),
  grant_id     bigint not null references access_grant on delete cascade,
  -- Moves on with each use: idle for a year, it expires.
  date_expires timestamptz not null
);
create index refresh_token_grant on refresh_token (grant_id);
create index refresh_token_expires on refresh_token (date_expires);

-- webhooks ------------------------------------------------------------------------------------------------------------

create table webhook (
  shard           smallint not null,
  id              bigint not null check (id > 0 and id % 256 = shard),
  store_id        bigint not null check (store_id % 256 = shard),
  -- The client that made it, who may see encryption_key; null where a person did.
  client          bigint,
  name            text not null check (length(name) between 1 and 255),
  format          text not null check (format in ('json', 'partner_automation', 'partner_sitebuilder')),
  version         text not null,
  url             text check (length(url) between 1 and 1000),
  query           text check (length(query) between 1 and 1000),
  -- Sealed (AES-256-GCM, bound to this row's id).
  encryption_key  bytea,
  event_resource  text,
  events          text[] not null,
  is_active       boolean not null,
  -- Rises with each switch-off; a pending delivery of an older epoch is dead. So a switch-off touches one row.
  epoch           integer not null default 0,
  headers         jsonb not null,
  rate_per_second integer check (rate_per_second between 1 and 1000),
  retry_profile   text not null check (retry_profile in ('hour', 'long')),
  revision        integer not null default 1,
  date_created    timestamptz not null,
  date_modified   timestamptz not null,
  primary key (shard, id),
  foreign key (shard, store_id) references store on delete cascade,
  check (format <> 'json' or encryption_key is not null),
  check ((event_resource is null) = (cardinality(events) = 0))
);
create index webhook_store on webhook (shard, store_id, id);

-- commerce ------------------------------------------------------------------------------------------------------------

-- The latest version of each resource. `body` is the published JSON as text, never jsonb: its bytes are what is rendered.
create table resource (
  shard         smallint not null,
  store_id      bigint not null,
  type          text not null,
  id            text not null check (length(id) between 1 and 64),
  version       integer not null check (version > 0),
  -- The publisher's date_modified (else the time of publishing): an older one never overwrites a newer.
  modified_at   timestamptz not null,
  event_id      bigint not null,
  time_zone     text not null,
  base_url      text not null,
  body          text not null,
  primary key (shard, store_id, type, id)
) with (fillfactor = 80);

-- events --------------------------------------------------------------------------------------------------------------

create table event (
  shard         smallint not null,
  id            bigint not null,
  store_id      bigint not null,
  resource_type text not null,
  resource_id   text not null,
  action        text not null,
  version       integer not null,
  -- Random, part of every webhook-id made from this event: an id that comes again after a restore names other content,
  -- the webhook-id does not come again.
  nonce         bigint not null,
  time_zone     text not null,
  base_url      text not null,
  date_created  timestamptz not null,
  body          text not null,
  primary key (shard, id)
) partition by range (id);
create index event_store on event (shard, store_id, id desc);

-- delivery ------------------------------------------------------------------------------------------------------------

-- What is pending and nothing else: a row is deleted when it ends (an update of a state column is never HOT:
-- measured 0 of 5,000). events/ alone inserts, delivery/ does the rest.
create table delivery (
  shard      smallint not null,
  id         bigint not null,
  store_id   bigint not null,
  webhook_id bigint not null,
  epoch      integer not null,
  event_id   bigint not null,
  attempts   smallint not null default 0 check (attempts >= 0),
  due_at     timestamptz not null,
  primary key (shard, id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);
-- A lane is fetched by due_at, id: ids commit out of order, so a cursor by id would lose rows.
create index delivery_lane on delivery (shard, webhook_id, due_at, id);

create table delivery_done (
  shard        smallint not null,
  id           bigint not null,
  store_id     bigint not null,
  webhook_id   bigint not null,
  event_id     bigint not null,
  state        text not null check (state in ('successful', 'failed')),
  attempts     smallint not null,
  date_ended   timestamptz not null,
  primary key (shard, id)
) partition by range (id);
create index delivery_done_webhook on delivery_done (shard, webhook_id, id desc);

create table attempt (
  shard            smallint not null,
  delivery_id      bigint not null,
  n                smallint not null check (n > 0),
  store_id         bigint not null,
  webhook_id       bigint not null,
  event_id         bigint not null,
  date_started     timestamptz not null,
  duration_ms      integer not null check (duration_ms >= 0),
  outcome          text not null,
  response_code    smallint,
  response_headers text,
  response_body    text,
  -- Makes record idempotent: an attempt is written once, however often a batch is tried.
  primary key (shard, delivery_id, n)
) partition by range (delivery_id);
create index attempt_webhook on attempt (shard, webhook_id, date_started desc);

-- Counts for one epoch of the webhook: a switch-off and on again begins at zero without anybody writing here.
create table webhook_state (
  shard                smallint not null,
  webhook_id           bigint not null,
  epoch                integer not null,
  consecutive_failures integer not null check (consecutive_failures >= 0),
  first_failure_at     timestamptz,
  paused_until         timestamptz,
  primary key (shard, webhook_id),
  check ((consecutive_failures = 0) = (first_failure_at is null))
) with (fillfactor = 50);

-- Who owns a shard. Changes only when ownership moves; `fence` rises each time, and every write of an owner names it.
create table shard_lease (
  shard smallint primary key check (shard between 0 and 255),
  owner bigint,
  fence bigint not null default 0
);
insert into shard_lease (shard) select generate_series(0, 255);

-- The heartbeat is one counter a worker, apart from the leases: `for share` on a lease then never meets a heartbeat
-- (measured up to 0.57 s when it does).
create table worker (
  id           bigint primary key,
  beat         bigint not null,
  date_started timestamptz not null
);
