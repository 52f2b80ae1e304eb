-- The schema, in one file: grouped by the module that writes each table (test/architecture/tables.ts). Rules for all tables:
--   * A table with rows of stores has `shard` first in its primary key, and no foreign key or unique key lacks it.
--   * A state that must not exist cannot be stored (CHECK).
--   * There is no foreign key to or between the tables of the hot path (event, delivery, delivery_done, attempt, webhook_state).
--   * Texts in keys and indexes that are compared only for equality, or in the order of bytes, have the collation "C": a new version of
--     the operating system's collations cannot invalidate their indexes. Texts that people search or sort keep that of the database.

-- db/ -----------------------------------------------------------------------------------------------------------------

-- Numbers for ids. They may have gaps, and are never used again: a rollback does not reset a sequence. Ids of events and deliveries
-- have numbers of their day instead (src/db/numbers.ts).
create sequence id_n as bigint;

-- The id of the key that secrets are sealed with, as in each envelope: a process with another key could open nothing. One row, written
-- by the first start.
create table sealing_key (
  key_id bytea primary key check (length(key_id) = 4)
);
create unique index sealing_key_one on sealing_key ((true));

-- How many rows a list has of each day, counted once, when no row of the day can be added any more: a list of 355,000 deliveries was
-- counted for each page. `owner_id` is the store of events and the webhook of deliveries and attempts; 0 marks the counted days of a
-- shard. The rows are deleted before the partitions of the day are dropped.
create table day_count (
  shard    smallint not null,
  owner_id bigint not null,
  list     text collate "C" not null check (list in ('event', 'delivery', 'attempt')),
  day      integer not null,
  rows     bigint not null check (rows >= 0),
  primary key (shard, owner_id, list, day)
);
create index day_count_day on day_count (day);

-- The same by kind of event: the deliveries of one kind among 355,000 were counted by reading the events of all. Only deliveries of
-- the day of their event are in it; later ones have an index of their own. `kind` is empty in the rows with the owner 0.
create table day_kind_count (
  shard    smallint not null,
  owner_id bigint not null,
  list     text collate "C" not null check (list in ('event', 'delivery')),
  day      integer not null,
  kind     text collate "C" not null,
  rows     bigint not null check (rows >= 0),
  primary key (shard, owner_id, list, day, kind)
);
create index day_kind_count_day on day_kind_count (day);

-- http/ ---------------------------------------------------------------------------------------------------------------

-- The response to a request with an Idempotency-Key. `scope` is a SHA-256 of client, user, method, path and key, so that no caller
-- gets the response of another; `answer` is sealed and bound to it. The row is written in the transaction of what the request
-- creates: concurrent requests wait at the primary key and never see a key without a response.
create table idempotency_key (
  scope        bytea primary key check (length(scope) = 32),
  body_hash    bytea not null check (length(body_hash) = 32),
  answer       bytea,
  date_created timestamptz not null,
  -- The shard of the store or webhook in the address of the request: rows with a shard move with it.
  shard        smallint check (shard between 0 and 255)
);
create index idempotency_key_created on idempotency_key (date_created);
-- The primary key has no shard, so updates and deletes are replicated with all columns.
alter table idempotency_key replica identity full;

-- identity/accounts/ --------------------------------------------------------------------------------------------------

create table users (
  id                bigint primary key check (id > 0),
  -- In the one spelling of src/core/email.ts.
  email             text not null check (length(email) between 3 and 254),
  password_hash     text not null,
  date_created      timestamptz not null,
  -- Set by the operator: sessions and grants of the user have no effect meanwhile.
  date_disabled     timestamptz,
  -- False if the person chose the address without proving that they read its mail.
  is_email_verified boolean not null default true,
  -- Whether the person knows a password: false for an account of a sign-in with a provider, until the person chooses one.
  has_password      boolean not null default true
);
create unique index users_address on users (email);

-- A session is found by the SHA-256 of its cookie; the cookie is not stored.
create table session (
  hash          bytea primary key check (length(hash) = 32),
  user_id       bigint not null references users on delete cascade,
  date_created  timestamptz not null,
  date_expires  timestamptz not null,
  -- When the person last proved who they are, which a sensitive change requires.
  date_verified timestamptz,
  id            bigint not null generated always as identity,
  address       text check (length(address) <= 64),
  user_agent    text check (length(user_agent) <= 512),
  -- Written at most every few minutes; null until the first use after the sign-in. The use also moves date_expires.
  date_seen     timestamptz
);
create index session_user_id on session (user_id);
create index session_expires on session (date_expires);
create unique index session_id on session (id);

-- Mailed links to a new password, found by the SHA-256 of their token, and deleted by their use.
create table password_reset (
  hash         bytea primary key check (length(hash) = 32),
  user_id      bigint not null references users on delete cascade,
  date_created timestamptz not null,
  date_expires timestamptz not null
);
create index password_reset_user on password_reset (user_id);
create index password_reset_expires on password_reset (date_expires);

-- Links to create an account: opening the link verifies the address, before the account exists.
create table sign_up (
  hash         bytea primary key check (length(hash) = 32),
  email        text collate "C" not null check (length(email) >= 3 and length(email) <= 254),
  date_created timestamptz not null,
  date_expires timestamptz not null,
  check (date_expires > date_created)
);
create index sign_up_email on sign_up (email);
create index sign_up_expires on sign_up (date_expires);

-- Changes of e-mail addresses. `hash` is the SHA-256 of the token mailed to the new address, which makes the change until
-- `date_expires`; `undo_hash` that of the token mailed to the former one, which cancels or undoes the change until
-- `date_undo_expires`. A row stays until then, and reserves the former address.
create table email_change (
  hash              bytea primary key check (length(hash) = 32),
  undo_hash         bytea not null check (length(undo_hash) = 32),
  user_id           bigint not null references users on delete cascade,
  old_email         text collate "C" not null check (length(old_email) >= 3 and length(old_email) <= 254),
  new_email         text not null check (length(new_email) >= 3 and length(new_email) <= 254),
  date_created      timestamptz not null,
  date_expires      timestamptz not null,
  date_changed      timestamptz,
  date_undo_expires timestamptz not null,
  check (date_expires > date_created),
  check (date_undo_expires > date_created)
);
create unique index email_change_undo on email_change (undo_hash);
create index email_change_user on email_change (user_id, date_created);
create index email_change_former on email_change (old_email) where date_changed is not null;
create index email_change_undo_expires on email_change (date_undo_expires);

-- Passkeys (WebAuthn credentials): only the public key is stored.
create table passkey (
  id            bigint primary key,
  user_id       bigint not null references users on delete cascade,
  credential_id bytea not null check (length(credential_id) between 1 and 1023),
  public_key    bytea not null,
  sign_count    bigint not null check (sign_count >= 0),
  transports    text[] not null,
  name          text not null check (length(name) between 1 and 60),
  date_created  timestamptz not null,
  date_used     timestamptz
);
create unique index passkey_credential on passkey (credential_id);
create index passkey_user on passkey (user_id);

-- One authenticator app (TOTP, RFC 6238) per user. `secret` is sealed. `last_step` is the time step of the last accepted code: no
-- code of it or of an earlier step is accepted again.
create table authenticator_app (
  user_id      bigint primary key references users on delete cascade,
  secret       bytea not null,
  last_step    bigint not null,
  date_created timestamptz not null
);

-- Unused recovery codes; of each only the SHA-256 is stored, because a code has 120 random bits.
create table recovery_code (
  user_id bigint not null references users on delete cascade,
  hash    bytea not null check (length(hash) = 32),
  primary key (user_id, hash)
);

-- Challenges that a passkey has signed, and sign-ins with an OpenID provider that have returned, until they expire: each is accepted once.
create table used_challenge (
  hash         bytea primary key check (length(hash) = 32),
  date_expires timestamptz not null
);
create index used_challenge_expires on used_challenge (date_expires);

-- Accounts at OpenID providers with which people sign in. `issuer` and `subject` identify such an account for ever; its e-mail
-- address, which may change, is not stored.
create table external_identity (
  id           bigint primary key,
  issuer       text collate "C" not null check (length(issuer) between 1 and 2000),
  subject      text collate "C" not null check (length(subject) between 1 and 255),
  user_id      bigint not null references users on delete cascade,
  date_created timestamptz not null,
  date_used    timestamptz not null
);
create unique index external_identity_subject on external_identity (issuer, subject);
create index external_identity_user on external_identity (user_id);

-- Limits of guessing: a bucket for an address prefix, an account, a client and address, and others. The key is a SHA-256, so that no
-- tried e-mail address is stored. The bucket is one column: the moment at which it is full again (the generic cell rate algorithm).
-- A full bucket has no row.
create table throttle (
  key     bytea primary key check (length(key) = 32),
  full_at timestamptz not null
);
create index throttle_full_at on throttle (full_at);

-- Who did what, from where, when. No foreign keys: entries outlive what they name.
create table audit (
  id           bigint primary key check (id > 0),
  action       text not null check (action ~ '^[a-z_]{1,64}$'),
  user_id      bigint,
  client       bigint,
  store_id     bigint,
  -- Null for an action of the command line.
  address      text check (length(address) <= 64),
  user_agent   text check (length(user_agent) <= 512),
  -- Never has a secret.
  detail       jsonb not null,
  date_created timestamptz not null
);
create index audit_user on audit (user_id, id desc);
create index audit_created on audit (date_created);

-- identity/oauth/ -----------------------------------------------------------------------------------------------------

create table client (
  id                     bigint primary key check (id > 0),
  client_id              text collate "C" not null unique check (client_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  name                   text not null check (length(name) between 1 and 255),
  company                text check (length(company) <= 255),
  description            text check (length(description) <= 1000),
  redirect_uris          text[] not null check (cardinality(redirect_uris) <= 20),
  -- Set by the operator: may use client_credentials with the scope platform.
  trusted                boolean not null,
  date_created           timestamptz not null,
  -- The developer; null for an app of the operator.
  owner                  bigint references users on delete set null,
  contact                text check (length(contact) <= 254),
  -- A public client has no secret (RFC 6749 §2.1): PKCE and rotation replace it.
  is_public              boolean not null default false,
  -- False if another person made or changed it since the operator's last look: the consent page says so.
  is_verified            boolean not null default true,
  rotates_refresh_tokens boolean not null default false,
  -- May omit redirect_uri at the token endpoint; the only registered one counts.
  is_legacy              boolean not null default false,
  date_modified          timestamptz not null default now(),
  -- From then on it has no effect. Its rows are deleted in small batches, because an app may have a million grants (in one
  -- transaction 100,000 of them kept all requests waiting for 2.4 s).
  date_deleted           timestamptz,
  -- Set for a client that registered itself: if no person has allowed it until then, it is deleted.
  unused_until           timestamptz,
  -- The scopes that the client may ask for; null for the two with full access.
  scopes                 text[] check (cardinality(scopes) > 0),
  requires_pkce          boolean not null default false,
  -- For clients that have registered for it, and the command line.
  allows_device_grant    boolean not null default false,
  -- The token with which a registered client manages its registration (RFC 7592).
  management_token_hash  bytea unique check (length(management_token_hash) = 32),
  -- The page of an app, which its developer may publish, and the address that installs it (OpenID Connect Core 1.0 §4).
  is_listed              boolean not null default false,
  client_uri             text check (length(client_uri) between 1 and 2000),
  policy_uri             text check (length(policy_uri) between 1 and 2000),
  tos_uri                text check (length(tos_uri) between 1 and 2000),
  initiate_login_uri     text check (length(initiate_login_uri) between 1 and 2000),
  check (trusted or cardinality(redirect_uris) > 0),
  check (not is_public or (rotates_refresh_tokens and not trusted and not is_legacy)),
  -- The owner of an app can create a secret for it, and a trusted one is the platform with it.
  check (not trusted or owner is null),
  check (unused_until is null or not is_verified),
  check (not is_legacy or cardinality(redirect_uris) = 1)
);
create index client_owner on client (owner) where owner is not null;
create index client_unused on client (unused_until) where unused_until is not null;
create index client_deleted on client (date_deleted) where date_deleted is not null;

-- Two rows while a rotation overlaps. Secrets are random, so SHA-256 is enough.
create table client_secret (
  hash         bytea primary key check (length(hash) = 32),
  client       bigint not null references client on delete cascade,
  date_created timestamptz not null,
  date_expires timestamptz
);
create index client_secret_client on client_secret (client);
create index client_secret_expires on client_secret (date_expires) where date_expires is not null;

-- An uploaded picture of the app: no process requests one from another server.
create table client_logo (
  client        bigint primary key references client on delete cascade,
  media_type    text not null check (media_type in ('image/png', 'image/jpeg', 'image/webp', 'image/gif')),
  bytes         bytea not null check (length(bytes) between 1 and 262144),
  date_modified timestamptz not null
);

-- Initial access tokens of RFC 7591 §1.2, which permit registration of clients through the protocol.
create table registration_token (
  hash         bytea primary key check (length(hash) = 32),
  date_created timestamptz not null,
  date_expires timestamptz not null
);
create index registration_token_expires on registration_token (date_expires);

-- One approval by one user, or the access of the platform itself, without a user. Its end ends all its tokens.
create table access_grant (
  id           bigint primary key check (id > 0),
  client       bigint not null references client on delete cascade,
  user_id      bigint references users on delete cascade,
  scope        text not null check (scope in ('store_full_access', 'store_limited', 'user_full_access', 'platform')),
  store_id     bigint,
  date_created timestamptz not null,
  date_revoked timestamptz,
  -- When an access token of it was last used, to the hour.
  date_used    timestamptz,
  -- The scopes that the user allowed in one store, in the order of the server's list.
  permissions  text[],
  -- Set when a newer grant of the same app, user, store and scopes replaces this one: until then its tokens work.
  date_ends    timestamptz,
  constraint access_grant_store_check check ((scope in ('store_full_access', 'store_limited')) = (store_id is not null)),
  constraint access_grant_user_check check ((scope = 'platform') = (user_id is null)),
  constraint access_grant_permissions_check
    check ((scope = 'store_limited') = (permissions is not null) and cardinality(permissions) > 0)
);
create index access_grant_user on access_grant (user_id);
create index access_grant_client on access_grant (client);
-- The grants that end with a store. Neither column changes while a grant is valid, so a change of date_used is a HOT update.
create index access_grant_store on access_grant (store_id) where store_id is not null and date_revoked is null;
create index access_grant_revoked on access_grant (date_revoked) where date_revoked is not null;
create index access_grant_ends on access_grant (date_ends) where date_ends is not null and date_revoked is null;

create table authorization_code (
  hash           bytea primary key check (length(hash) = 32),
  grant_id       bigint not null references access_grant on delete cascade,
  -- Null for an approved device code.
  redirect_uri   text,
  code_challenge text check (length(code_challenge) = 43),
  date_expires   timestamptz not null,
  used_at        timestamptz
);
create index authorization_code_grant on authorization_code (grant_id);
create index authorization_code_expires on authorization_code (date_expires);

-- The device authorization grant (RFC 8628). A row waits for the decision of a person. An approval deletes it and inserts a row of
-- authorization_code with the same hash, so that an approved device code is redeemed once, expires and is purged like any other code.
-- A user code has only 35 bits, so its hash is an HMAC under a key of the server.
create table device_authorization (
  hash             bytea primary key check (length(hash) = 32),
  user_code_hash   bytea not null unique check (length(user_code_hash) = 32),
  client           bigint not null references client on delete cascade,
  scope            text not null check (length(scope) <= 1000),
  interval_seconds smallint not null check (interval_seconds > 0),
  date_expires     timestamptz not null,
  date_polled      timestamptz,
  date_denied      timestamptz
);
create index device_authorization_expires on device_authorization (date_expires);
create index device_authorization_client on device_authorization (client);

create table access_token (
  hash         bytea primary key check (length(hash) = 32),
  grant_id     bigint not null references access_grant on delete cascade,
  date_expires timestamptz not null,
  -- The scopes of a token that a refresh narrowed; null if the token permits what its grant permits.
  permissions  text[] check (cardinality(permissions) > 0)
);
create index access_token_grant on access_token (grant_id);
create index access_token_expires on access_token (date_expires);

create table refresh_token (
  hash         bytea primary key check (length(hash) = 32),
  grant_id     bigint not null references access_grant on delete cascade,
  -- Each use moves it: a token that is unused for a year expires.
  date_expires timestamptz not null,
  -- When its successor was made. A rotated token stays for a while, so that its reuse is noticed.
  rotated_at   timestamptz
);
create index refresh_token_grant on refresh_token (grant_id);
create index refresh_token_expires on refresh_token (date_expires);

-- stores/ -------------------------------------------------------------------------------------------------------------

create table store (
  shard               smallint not null check (shard between 0 and 255),
  id                  bigint not null check (id > 0 and id % 256 = shard),
  name                text not null check (length(name) between 1 and 255),
  domain              text not null check (length(domain) between 1 and 253),
  email               text not null,
  time_zone           text not null,
  date_created        timestamptz not null,
  date_modified       timestamptz not null,
  -- Rises with each change; If-Match is compared with it.
  revision            integer not null default 1,
  -- Who writes subscription_event: Halcyon, from two versions of a subscription, or the platform.
  subscription_events text not null default 'derived' check (subscription_events in ('derived', 'published')),
  -- Whether every member needs a second factor to use the pages of Halcyon.
  second_factor       text not null default 'optional' check (second_factor in ('optional', 'required')),
  -- The developer whose sandbox store it is; the user is erased only together with it. Without a foreign key: other databases than
  -- the home database have copies of their stores, and no users.
  sandbox_of          bigint,
  primary key (shard, id)
);
create unique index store_sandbox_of on store (sandbox_of) where sandbox_of is not null;

-- An erased store: its rows in large tables are deleted in small batches, then this row.
create table erased_store (
  shard       smallint not null check (shard between 0 and 255),
  id          bigint not null check (id > 0 and id % 256 = shard),
  date_erased timestamptz not null,
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

-- Pending invitations to stores. An accepted, revoked or expired one is deleted; the changelog keeps what happened. Of a link only
-- the SHA-256 of its token is stored. `mailed_hash` is that of the token which was only mailed, so it proves that its holder reads
-- mail to `email`; the inviting owner knows the other token.
-- The references end an invitation with its store, and with the membership of the owner who made it (`created_by`; null for the
-- platform): a removed owner cannot return by an own link.
create table invitation (
  shard        smallint not null,
  id           bigint not null,
  store_id     bigint not null,
  hash         bytea not null check (length(hash) = 32),
  mailed_hash  bytea check (length(mailed_hash) = 32),
  email        text check (length(email) >= 3 and length(email) <= 254),
  role         text not null check (role in ('owner', 'member')),
  created_by   bigint,
  date_created timestamptz not null,
  date_expires timestamptz not null,
  primary key (shard, id),
  foreign key (shard, store_id) references store on delete cascade,
  foreign key (shard, store_id, created_by) references membership on delete cascade,
  check (mailed_hash is null or email is not null),
  check (date_expires > date_created)
);
create unique index invitation_hash on invitation (hash);
create unique index invitation_mailed_hash on invitation (mailed_hash) where mailed_hash is not null;
create index invitation_creator on invitation (shard, store_id, created_by);
create index invitation_email on invitation (email) where email is not null;
create index invitation_expires on invitation (date_expires);

-- webhooks/ -----------------------------------------------------------------------------------------------------------

create table webhook (
  shard               smallint not null,
  id                  bigint not null check (id > 0 and id % 256 = shard),
  store_id            bigint not null check (store_id % 256 = shard),
  -- The client that made it, who may see encryption_key; null for a webhook of a person.
  client              bigint,
  name                text not null check (length(name) between 1 and 255),
  format              text not null
    check (format in ('json', 'partner_automation', 'partner_sitebuilder', 'cloudevents', 'cloudevents_binary')),
  version             text not null,
  -- Up to the question mark; the query is in request_secrets.
  url                 text check (length(url) between 1 and 1000),
  query               text check (length(query) between 1 and 1000),
  -- Sealed (AES-256-GCM, bound to the id of the row).
  encryption_key      bytea,
  event_resource      text,
  events              text[] not null,
  is_active           boolean not null,
  -- Rises when the webhook is disabled: pending deliveries of an older epoch have failed. So disabling changes one row.
  epoch               integer not null default 0,
  -- The names, each with null; the values are in request_secrets.
  headers             jsonb not null,
  rate_per_second     integer check (rate_per_second between 1 and 1000),
  retry_profile       text not null check (retry_profile in ('hour', 'long')),
  revision            integer not null default 1,
  date_created        timestamptz not null,
  date_modified       timestamptz not null,
  -- During a rotation: the next key, sealed like encryption_key, and when it replaces that key. From then on it is the key, whether
  -- or not it has been moved to encryption_key.
  next_encryption_key bytea,
  rotation_ends_at    timestamptz,
  -- A pull webhook has no url: its deliveries have due_at = 'infinity', where no lane finds them, and wait for a listener. It is
  -- deleted after a day without one.
  is_held             boolean not null default false,
  listened_at         timestamptz,
  -- The user for whom the client made it: all people's `halcyon` are one client, and only this user may fetch the deliveries and see
  -- the key. Null for the platform.
  user_id             bigint,
  -- Why Halcyon disabled the webhook; null if it is active, or a person or an app disabled it.
  inactive_reason     text check (inactive_reason in ('failures', 'gone', 'access_ended')),
  -- The url and the headers, sealed as one text like encryption_key: the query and the values often are tokens.
  request_secrets     bytea,
  -- Which events are delivered, by the payload. filter_id is a hash of the text, which publishes compare.
  filter              text,
  filter_id           bigint,
  -- A delivery waits until the earlier ones of its resource have ended.
  ordering            text,
  -- Made by Halcyon for the client, which declares it once for all stores.
  is_for_app          boolean not null default false,
  -- The scope of the app in the store that its webhook was last sent; null if the app is not installed.
  app_scope           text,
  primary key (shard, id),
  foreign key (shard, store_id) references store on delete cascade,
  constraint webhook_key_check check (format <> 'json' or encryption_key is not null or is_for_app),
  constraint webhook_events_check check ((event_resource is null) = (cardinality(events) = 0)),
  constraint webhook_rotation_check check (
    (next_encryption_key is null) = (rotation_ends_at is null)
    and (next_encryption_key is null or encryption_key is not null)
  ),
  constraint webhook_held_check check (is_held = (listened_at is not null) and not (is_held and url is not null)),
  constraint webhook_filter_check check (length(filter) between 1 and 1000 and (filter is null) = (filter_id is null)),
  constraint webhook_ordering_check check (ordering = 'resource'),
  constraint webhook_app_check check (case when is_for_app then client is not null and not is_held else app_scope is null end)
);
create index webhook_store on webhook (shard, store_id, id);
create index webhook_rotation_ends on webhook (rotation_ends_at) where rotation_ends_at is not null;
create index webhook_listened on webhook (listened_at) where is_held;
-- The webhooks that an app made for a person, found when the access of that app ends.
create index webhook_maker on webhook (client, user_id) where client is not null;
create index webhook_user on webhook (user_id) where client is not null;
create unique index webhook_for_app on webhook (shard, store_id, client) where is_for_app;
create index webhook_uninstalled on webhook (date_modified) where is_for_app and app_scope is null;

-- A developer declares a webhook for an app once. Halcyon makes a row of webhook for it in each store that allows the app.
create table app_webhook (
  -- Without a foreign key: the last deliveries are sent after the app is deleted.
  client           bigint primary key,
  url              text not null check (length(url) between 1 and 1000),
  -- Sealed. The rows of webhook have no copy, so a new key is valid in all stores at once.
  key              bytea not null,
  date_modified    timestamptz not null,
  -- The key that replaces the current one; until the rotation ends, deliveries are signed with both.
  next_key         bytea,
  rotation_ends_at timestamptz,
  constraint app_webhook_rotation_check check ((next_key is null) = (rotation_ends_at is null))
);

-- Returns whether an event passes a filter. `known`: the filters that the publisher has evaluated; another filter is newer than those,
-- and fails the statement.
create function passes_filter(filter bigint, known bigint[], passed bigint[]) returns boolean language plpgsql as $$
begin
  if filter = any (known) then
    return filter = any (passed);
  end if;
  raise exception 'a filter is not known to the publisher' using errcode = 'HL002';
end
$$;

-- events/ -------------------------------------------------------------------------------------------------------------

-- The latest version of each resource. `body` is the published JSON as text, never jsonb: its bytes are what is rendered. The columns
-- `superseded_…` keep what a version replaced, because a statement that overwrites a row has no access to the old values
-- (`returning old` is PostgreSQL 18's): with them a batch finds out which of its events were ever the latest.
create table resource (
  shard               smallint not null,
  store_id            bigint not null,
  type                text collate "C" not null,
  id                  text collate "C" not null check (length(id) between 1 and 64),
  version             integer not null check (version > 0),
  -- The publisher's date_modified, or the time of publishing.
  modified_at         timestamptz not null,
  event_id            bigint not null,
  time_zone           text not null,
  base_url            text not null,
  body                text not null,
  -- Whether modified_at is the publisher's date. Only dated events are compared, with the newest date so far: without a date
  -- nothing shows that an event is older.
  is_dated            boolean not null default true,
  dated_at            timestamptz,
  superseded_dated_at timestamptz,
  -- The newest event of this resource, also if it was an older version; event.previous_id continues the chain.
  head_event_id       bigint,
  superseded_event_id bigint,
  -- Of a subscription, the newest step that was derived from it; of a step, the one before it. Its id is that of its event. So the
  -- erasure of a subscription finds all its steps, also those whose days were dropped.
  step_id             bigint,
  -- The day of `modified_at`, counted from 2020-01-01 in UTC as in ids, so that a filter on a date of modification reads the resources
  -- of its days and not all of a type. An index on `modified_at` itself was rejected, because every update would write all indexes of
  -- the table: 180 µs of PostgreSQL's time instead of 143.
  modified_day        integer generated always as ((modified_at at time zone 'UTC')::date - date '2020-01-01') stored,
  -- What the resource belongs to, such as the customer of a transaction: without it a list read all transactions of the store, 0.9 s
  -- for 330,000. It costs 2.3 µs for 1 KB of JSON.
  parent_id           text collate "C" generated always as (left(
    case type
      when 'transaction' then body::json ->> 'customer_id'
      when 'subscription' then body::json ->> 'customer_id'
      when 'transaction_log' then body::json ->> 'transaction_id'
      when 'subscription_event' then body::json ->> 'subscription_id'
    end, 64)) stored,
  primary key (shard, store_id, type, id)
) with (fillfactor = 80);
create index resource_parent on resource (shard, store_id, type, parent_id) where parent_id is not null;
-- The order of lists: 9 before 10, though ids are texts. Costs a new resource 48 bytes, and an update nothing.
create index resource_listed on resource (shard, store_id, type, length(id), id);
create index resource_modified on resource (shard, store_id, type, modified_day);

-- Return the date and the number that a publisher has written, for orders and filters of a list; null for other texts. A cast would
-- end the whole statement at the first text that is no date, and a block that catches its exception cannot run in parallel workers
-- before PostgreSQL 17. The cheapest test is first: a search of a store calls them for each row (6 µs for a date, 1 µs for others).
create function moment_of(written text) returns timestamptz language plpgsql stable parallel safe as $$
begin
  if written not like '____-__-__%' or written like '0000%' or written !~ ('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])'
    || '([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?(Z|[+-](0[0-9]|1[0-4]):?[0-5][0-9])?)?$') then
    return null;
  end if;
  -- 30 February is none.
  if substr(written, 9, 2) > '28' and substr(written, 9, 2)::int
    > extract(day from make_date(substr(written, 1, 4)::int, substr(written, 6, 2)::int, 1) + interval '1 month - 1 day') then
    return null;
  end if;
  return written::timestamptz;
end
$$;

create function number_of(written text) returns numeric language plpgsql immutable parallel safe as $$
begin
  if written !~ '^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9][0-9]?[0-9]?)?$' or length(written) > 60 then
    return null;
  end if;
  return written::numeric;
end
$$;

create table event (
  shard         smallint not null,
  id            bigint not null,
  store_id      bigint not null,
  resource_type text not null,
  resource_id   text not null,
  action        text not null,
  -- 0 for an older version, which was never the latest; the others of a resource rise.
  version       integer not null,
  -- Random, and part of each webhook-id of this event: after a restore an id may be given to another event, a webhook-id never.
  nonce         bigint not null,
  time_zone     text not null,
  base_url      text not null,
  date_created  timestamptz not null,
  body          text not null,
  -- The event of the same resource before this one, so that an erasure finds them all by their keys: eight bytes, where an index on
  -- the resource would cost each publish a row in random order.
  previous_id   bigint,
  primary key (shard, id)
) partition by range (id);
-- With the date and the kind, so that the events of a day, and those of a kind on days that are not counted yet, are found in the
-- index alone. Costs some 28 bytes an event.
create index event_store_dated on event (shard, store_id, id desc) include (date_created, resource_type, action);

-- What was published under an idempotency key. A table of its own, because the unique key must not depend on a day.
create table publish_key (
  shard        smallint not null,
  store_id     bigint not null,
  key          text collate "C" not null check (length(key) between 1 and 255),
  fingerprint  bytea not null check (length(fingerprint) = 32),
  event_ids    bigint[] not null check (cardinality(event_ids) > 0),
  date_created timestamptz not null,
  primary key (shard, store_id, key)
);
create index publish_key_created on publish_key (date_created);

-- Ends a statement if a concurrent publish used the same key first: the repeated statement sees its rows.
create function unless_overtaken(done bigint, wanted bigint) returns boolean language plpgsql as $$
begin
  if done < wanted then
    raise exception 'overtaken by a publish of the same idempotency key' using errcode = 'HL001';
  end if;
  return true;
end
$$;

-- Recurring revenue: what a subscription brings in a month from a day on, as it was known at the end of that day (in the store's time
-- zone). One row for each day on which it changed. A closed day (before revenue_book.open_day) is never written again.
create table subscription_term (
  shard           smallint not null,
  store_id        bigint not null,
  subscription_id text collate "C" not null check (length(subscription_id) between 1 and 64),
  day             date not null,
  currency        text not null check (currency ~ '^[A-Z]{3}$'),
  monthly         numeric(24, 6) not null check (monthly >= 0),
  is_active       boolean not null,
  -- Active from start_day on and no longer on end_day.
  start_day       date,
  end_day         date,
  primary key (shard, store_id, subscription_id, day)
);

-- The progress of the daily snapshots of a store: days before open_day accept no changes, next_day is the next to get a snapshot. A
-- publish of a subscription locks the row `for share`, so that a day is closed when all its changes are written.
create table revenue_book (
  shard    smallint not null,
  store_id bigint not null,
  open_day date not null,
  next_day date not null,
  -- When next_day has certainly ended and its snapshot may be made.
  due_at   timestamptz not null,
  primary key (shard, store_id),
  check (next_day <= open_day)
);
create index revenue_book_due on revenue_book (shard, due_at);

-- The days that have a snapshot: never two for one day.
create table revenue_day (
  shard       smallint not null,
  store_id    bigint not null,
  day         date not null,
  resource_id text not null,
  primary key (shard, store_id, day)
);

-- Erased customers whose copies in other resources and their events are still searched, and the progress: first the resources in the
-- order of their key, then the events from the newest to the oldest.
create table erased_customer (
  shard           smallint not null,
  store_id        bigint not null,
  id              text collate "C" not null check (length(id) between 1 and 64),
  date_erased     timestamptz not null,
  after_type      text not null default '',
  after_id        text not null default '',
  -- Null while resources are searched.
  before_event_id bigint,
  primary key (shard, store_id, id)
);

-- Events that were erased in part, until the responses of their receivers are erased as well.
create table erased_event (
  shard       smallint not null,
  id          bigint not null,
  store_id    bigint not null,
  date_erased timestamptz not null,
  primary key (shard, id)
);
create index erased_event_date on erased_event (date_erased);

-- The version that a resource had when it was erased: if it is published again, versions continue from there, so that no receiver
-- takes the new one for an old one.
create table erased_resource (
  shard       smallint not null,
  store_id    bigint not null,
  type        text collate "C" not null,
  id          text collate "C" not null,
  version     integer not null check (version > 0),
  -- The step before an erased one, so that the chain of steps of a subscription has no gap.
  step_id     bigint,
  -- Events that are dated before it are stored without their bodies, also if they arrive later. Null if unknown: the row has only
  -- the version.
  date_erased timestamptz,
  primary key (shard, store_id, type, id)
);

-- Ends a publish that began before an erasure and wrote after it: its insert waited for the deleted row, and did not see the version
-- that the erasure left. `floors`: the versions that it saw, 0 for none.
-- A generic plan, because each call would be planned again: 0.1 ms of a publish of 0.4, and 0.02 with it.
create function unless_erased(shards smallint[], stores bigint[], types text[], ids text[], floors integer[])
returns boolean language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  if exists (
    select from unnest(shards, stores, types, ids, floors) as n (shard, store_id, type, id, floor)
    cross join lateral (
      select version from erased_resource
      where shard = n.shard and store_id = n.store_id and type = n.type and id = n.id limit 1
    ) as e
    where e.version > n.floor
  ) then
    raise exception 'overtaken by an erasure of the same resource' using errcode = 'HL001';
  end if;
  return true;
end
$$;

-- The progress of the erasure of a resource with very many events, which another process continues after a crash.
create table erased_chain (
  shard       smallint not null,
  -- The newest event of the resource.
  id          bigint not null,
  store_id    bigint not null,
  event_id    bigint,
  step_id     bigint,
  date_erased timestamptz not null,
  primary key (shard, id),
  check (event_id is not null or step_id is not null)
);

-- Events since a date for a webhook that missed them, optionally limited: to those before `until`, of one kind, of a resource, with a
-- failed delivery, or whose last response had a status or a text. The owner of the shard processes it in pages; a page and its
-- progress are one transaction, so that no delivery is made twice after a crash.
create table recovery (
  shard              smallint not null,
  id                 bigint not null check (id > 0 and id % 256 = shard),
  store_id           bigint not null check (store_id % 256 = shard),
  webhook_id         bigint not null,
  -- That of the webhook at the request: if it has risen, the webhook was disabled meanwhile.
  epoch              integer not null,
  since              timestamptz not null,
  -- waiting: an older transaction may still commit an event. stopped: the webhook was disabled meanwhile.
  state              text not null check (state in ('waiting', 'running', 'finished', 'cancelled', 'stopped')),
  -- Transactions that were open at the request (virtualxid of pg_locks, unique while PostgreSQL runs): they may not see that the
  -- webhook is active again, and their events have to be committed before the search begins.
  older_transactions text[] not null,
  -- The last event that was searched; 0 before the start.
  after_event_id     bigint not null default 0,
  -- The last event to search. Later ones have deliveries already.
  until_event_id     bigint,
  -- How many events of the store there were to search, how many were searched, and how many got a delivery.
  events_total       integer not null default 0 check (events_total >= 0),
  events_seen        integer not null default 0 check (events_seen >= 0),
  events_recovered   integer not null default 0 check (events_recovered >= 0),
  date_created       timestamptz not null,
  date_modified      timestamptz not null,
  date_ended         timestamptz,
  until              timestamptz,
  event              text,
  only_failed        boolean not null default false,
  resource_id        text check (length(resource_id) <= 255),
  response_code      integer check (response_code between 100 and 999),
  response_body      text check (length(response_body) <= 1000),
  primary key (shard, id),
  foreign key (shard, webhook_id) references webhook on delete cascade,
  check ((date_ended is null) = (state in ('waiting', 'running'))),
  check (state <> 'running' or until_event_id is not null)
);
create unique index recovery_open on recovery (shard, webhook_id) where state in ('waiting', 'running');
create index recovery_webhook on recovery (shard, webhook_id, id desc);
create index recovery_ended on recovery (date_ended) where date_ended is not null;

-- delivery/ -----------------------------------------------------------------------------------------------------------

-- Only pending deliveries: the row of an ended one is deleted, because an update of a state column is never HOT (measured: 0 of 5,000).
create table delivery (
  shard      smallint not null,
  id         bigint not null,
  store_id   bigint not null,
  webhook_id bigint not null,
  epoch      integer not null,
  event_id   bigint not null,
  attempts   smallint not null default 0 check (attempts >= 0),
  due_at     timestamptz not null,
  -- Consecutive faults of Halcyon itself, in units of 30 s: a render that throws counts as much as six hours of a failing resolver.
  faults     smallint not null default 0 check (faults >= 0),
  primary key (shard, id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);
-- The order of a lane: ids commit out of order, so a cursor by id would lose rows. The planner uses it only where a statement says
-- `due_at > '-infinity'`, and never to find a delivery by its id: while the statistics showed an empty table, it read all entries of
-- the shard for one id.
create index delivery_due on delivery (shard, webhook_id, due_at, id) where due_at > '-infinity';

-- The order of the pending deliveries of webhooks with the ordering 'resource'. The row of an ended delivery orders nothing, and is
-- deleted.
create table delivery_order (
  shard        smallint not null,
  delivery_id  bigint not null,
  webhook_id   bigint not null,
  -- A hash of the type and the id of the resource.
  resource_key bigint not null,
  version      integer not null check (version > 0),
  primary key (shard, delivery_id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);
create index delivery_order_resource on delivery_order (shard, webhook_id, resource_key, version);

-- Ended deliveries, with their last attempt: most deliveries end with their first one, and need one row instead of two. Deliveries
-- that ended without an attempt have nulls.
create table delivery_done (
  shard            smallint not null,
  id               bigint not null,
  store_id         bigint not null,
  webhook_id       bigint not null,
  event_id         bigint not null,
  state            text not null check (state in ('successful', 'failed')),
  attempts         smallint not null,
  date_ended       timestamptz not null,
  date_started     timestamptz,
  duration_ms      integer,
  outcome          text,
  response_code    smallint,
  response_headers text,
  response_body    text,
  primary key (shard, id)
) partition by range (id);
create index delivery_done_webhook on delivery_done (shard, webhook_id, id desc);
-- The deliveries of an event, over all webhooks. Event ids rise with the order in which deliveries end, except those of retries, so a
-- summary of each 16 pages is enough: 0.8 ms among a million rows, 0.3 MB where a B-tree has 41 MB. Pending deliveries have no such
-- index: it cost a publish 4 % more WAL, and without it 200,000 rows are read in 13 ms.
create index delivery_done_event on delivery_done using brin (event_id int8_minmax_multi_ops) with (pages_per_range = 16);
-- Deliveries of a later day than that of their event (>> 38 of both ids), by a recovery or a resend: few. Without it a recovery does
-- not find that an event has arrived since, and sends it again.
create index delivery_done_later on delivery_done (shard, webhook_id, event_id) where (id >> 38) <> (event_id >> 38);
-- Searches for failures. A delivery that succeeds at once is in neither index.
create index delivery_done_failed on delivery_done (shard, webhook_id, id) where state = 'failed';
create index delivery_done_retried on delivery_done (shard, webhook_id, id) where attempts > 1;
-- For the log of a webhook. The planner uses it only where a statement says `date_started > '-infinity'`, and never to find a
-- delivery by its id.
create index delivery_done_started on delivery_done (shard, webhook_id, date_started desc) where date_started > '-infinity';

-- The attempts before the last one, and all of a pending delivery.
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
  -- Recording is idempotent: an attempt is written once, however often a batch is retried.
  primary key (shard, delivery_id, n)
) partition by range (delivery_id);
create index attempt_webhook on attempt (shard, webhook_id, date_started desc);

-- All attempts. The view does not omit deliveries without an attempt, because PostgreSQL pushes orders and limits only into parts of a
-- union without conditions of their own.
create view attempt_log as
select shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome, response_code, response_headers,
  response_body
from attempt
union all
select shard, id, attempts, store_id, webhook_id, event_id, date_started, duration_ms, outcome, response_code, response_headers,
  response_body
from delivery_done;

-- Counts for one epoch of the webhook, so that enabling it again begins at zero without a write.
create table webhook_state (
  shard                smallint not null,
  webhook_id           bigint not null,
  epoch                integer not null,
  consecutive_failures integer not null check (consecutive_failures >= 0),
  first_failure_at     timestamptz,
  paused_until         timestamptz,
  -- While the circuit breaker is open: when the next attempt may start, one at a time.
  probe_at             timestamptz,
  -- An outcome requires that the webhook is disabled. Written with the outcome and executed after it, so that the next owner completes
  -- it after a crash. The counts do not show it: they have no time of the last failure.
  is_condemned         boolean not null default false,
  -- The store was warned that half of the failures that disable the webhook have happened.
  is_warned            boolean not null default false,
  primary key (shard, webhook_id),
  check ((consecutive_failures = 0) = (first_failure_at is null))
) with (fillfactor = 50);
-- Finds pending disables of a crashed owner of webhooks without other work.
create index webhook_state_condemned on webhook_state (shard) where is_condemned;

-- The attempts of a webhook by hour (UTC). Workers count in memory and add their counts every few seconds, so that no attempt costs
-- a statement more; a crash loses the last seconds. Only charts use them.
create table webhook_hour (
  shard      smallint not null,
  webhook_id bigint not null check (webhook_id % 256 = shard),
  hour       timestamptz not null,
  -- As in attempt.outcome.
  outcome    text collate "C" not null,
  attempts   bigint not null check (attempts > 0),
  -- Counts by duration: src/core/histogram.ts has the bounds, the last count has none.
  durations  bigint[] not null,
  primary key (shard, webhook_id, hour, outcome)
);
create index webhook_hour_ended on webhook_hour (hour);

-- The owner of each shard. Changes only when the owner does; `fence`, the fencing token, rises each time, and every write of an owner
-- checks it.
create table shard_lease (
  shard  smallint primary key check (shard between 0 and 255),
  owner  bigint,
  fence  bigint not null default 0,
  -- The crash count: how many consecutive owners died with the shard; an owner that returns the shard or survives resets it. From
  -- the second on the owner writes what it is about to send to delivery_suspect, to find the delivery that kills its senders.
  deaths smallint not null default 0 check (deaths >= 0)
);
insert into shard_lease (shard) select generate_series(0, 255);

-- What is being sent in a shard whose owners died: written before the attempt, deleted with its record. A row with the fencing token of
-- a dead owner was in flight, and `deaths` counts how often. Innocent deliveries are sent the next time; the one that kills its senders
-- is dead-lettered.
create table delivery_suspect (
  shard       smallint not null,
  delivery_id bigint not null,
  -- Of the owner that sent it last.
  fence       bigint not null,
  deaths      smallint not null default 0 check (deaths >= 0),
  primary key (shard, delivery_id)
);

-- The heartbeat of each worker is one counter, apart from the leases: `for share` on a lease never waits for a heartbeat (measured:
-- up to 0.57 s otherwise).
create table worker (
  id              bigint primary key,
  beat            bigint not null,
  date_started    timestamptz not null,
  -- The session that sends the heartbeats. When it has ended, the process has ended too, or reports a new session within moments:
  -- another worker need not wait for the lease.
  backend_pid     integer,
  backend_started timestamptz
);

-- shards/ -------------------------------------------------------------------------------------------------------------

-- The map of shards over several databases. Its rows are in the home database; without rows the home database owns all shards.
create table shard_database (
  -- 0: the home database
  id       smallint primary key check (id >= 0),
  name     text collate "C" not null unique,
  identity uuid not null unique,
  -- The sealed url; null for the home database, which is DATABASE_URL.
  address  bytea check ((address is null) = (id = 0))
);
create table shard_map (
  is_only      boolean primary key default true check (is_only),
  version      bigint not null check (version > 0),
  date_created timestamptz not null default clock_timestamp()
);
create table shard_owner (
  shard    smallint primary key check (shard between 0 and 255),
  database smallint not null references shard_database
);

-- Recognizes a database under each of its addresses. `home` is the identity of the home database whose map it is in.
create table database_identity (
  is_only  boolean primary key default true check (is_only),
  identity uuid not null,
  home     uuid
);
insert into database_identity (identity) values (gen_random_uuid());

-- Changes of the home database that other databases still have to apply, in the order of their ids.
create table outbox (
  id           bigint generated always as identity primary key,
  database     smallint not null references shard_database,
  -- Null: the change concerns all shards of the database.
  shard        smallint check (shard between 0 and 255),
  kind         text not null check (kind in ('store', 'changelog', 'access', 'resume', 'app')),
  -- Keeps the order of members, which entries of the changelog show.
  body         json not null,
  date_created timestamptz not null default now()
);
create index outbox_by_database on outbox (database, id);

-- In the other databases: the ids of changes that are applied, until they are deleted from the outbox.
create table outbox_applied (id bigint primary key);

create function enqueue_store() returns trigger language plpgsql as $$
begin
  -- Processes read the map each second. One with the old map would write the rows of the new store into this database.
  if tg_op = 'INSERT' and exists (select from shard_owner where shard = new.shard and database <> 0)
    and exists (select from shard_map where date_created > clock_timestamp() - interval '3 seconds')
  then
    raise exception 'shard % has just got another database: try again in a few seconds', new.shard using errcode = 'HS001';
  end if;
  insert into outbox (database, shard, kind, body)
  select database, shard, 'store', json_build_object('store_id', coalesce(new.id, old.id))
  from shard_owner where shard = coalesce(new.shard, old.shard) and database <> 0;
  return null;
end $$;
create trigger enqueue_store after insert or update or delete on store for each row execute function enqueue_store();

create function enqueue_app_webhook() returns trigger language plpgsql as $$
begin
  insert into outbox (database, kind, body)
  select id, 'app', json_build_object('client', coalesce(new.client, old.client)) from shard_database where id <> 0 order by id;
  return null;
end $$;
create trigger enqueue_app_webhook after insert or update or delete on app_webhook
  for each row execute function enqueue_app_webhook();

-- Moves of shards to another database, in the home database. A move is deleted when its rows in the source are deleted.
create table shard_move (
  id            integer generated always as identity primary key,
  shards        smallint[] not null check (cardinality(shards) > 0),
  source        smallint not null references shard_database,
  target        smallint not null references shard_database check (target <> source),
  date_started  timestamptz not null default now(),
  -- Since then the target is the owner.
  date_switched timestamptz,
  -- Since then the source has only the rows, which are not replicated any more.
  date_ended    timestamptz check (date_ended >= date_switched)
);
create unique index shard_move_open on shard_move ((true)) where date_ended is null;

-- In the source of a move: shards whose rows no transaction may change, because they are in another database, or soon will be.
create table moved_shard (
  shard         smallint primary key check (shard between 0 and 255),
  -- The fencing token of the lease that was deleted.
  fence         bigint not null,
  -- Since then retention and cascades may delete the rows. Null: the move may still be undone.
  date_switched timestamptz
);

-- The trigger of a move on each table with rows of its shards. Each writer locks the move (the argument), so that the move can wait
-- for running writers.
create function refuse_moved() returns trigger language plpgsql as $$
declare
  moving smallint := coalesce(new.shard, old.shard);
  moved  moved_shard;
begin
  perform pg_advisory_xact_lock_shared(7209005, tg_argv[0]::int);
  select * into moved from moved_shard where shard = moving;
  if not found or (tg_op = 'DELETE' and moved.date_switched is not null) then
    return coalesce(new, old);
  end if;
  -- The home database keeps the rows of all stores, and sends their changes to the owner of the shard.
  if tg_table_name in ('store', 'erased_store') and exists (select from shard_owner where shard = moving and database <> 0) then
    return coalesce(new, old);
  end if;
  raise exception 'shard % moves to another database', moving using errcode = 'HS001';
end $$;
