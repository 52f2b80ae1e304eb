-- The authorization server, whole: kinds of clients, rotation of refresh tokens, password reset, throttling, audit.
-- Everything here is an expansion: what 0001's code writes still fits. It does not know of rotation, so a rotated token
-- that is presented to a process of 0001 during a rolling restart is still good there; nor of deletion by a mark, so a
-- client that was deleted goes on there until its row is purged.

-- All at once and in the order in which the statements of 0001 lock them: a bearer check that holds a grant and wants its
-- client, while this holds the client and wants grants, would be a deadlock (measured: every check in flight died).
lock table refresh_token, access_grant, client, users in access exclusive mode;

-- accounts ------------------------------------------------------------------------------------------------------------

-- Set while the operator keeps somebody out: their sessions and every grant of theirs stop counting, and come back with it.
alter table users add column date_disabled timestamptz;

-- A mailed link to a new password, found by the SHA-256 of what stands in it. Used, it is deleted.
create table password_reset (
  hash         bytea primary key check (length(hash) = 32),
  user_id      bigint not null references users on delete cascade,
  date_created timestamptz not null,
  date_expires timestamptz not null
);
create index password_reset_user on password_reset (user_id);
create index password_reset_expires on password_reset (date_expires);

-- Guessing, slowed: a bucket for an address prefix, an account, a client and address, … The key is a SHA-256 of what is
-- counted, so that an e-mail address somebody tried stands nowhere. One column is the whole bucket: the moment at which
-- it will be full again (the generic cell rate algorithm). A bucket that is full has no row.
create table throttle (
  key     bytea primary key check (length(key) = 32),
  full_at timestamptz not null
);
create index throttle_full_at on throttle (full_at);

-- Who did what, from where, when. No foreign keys: it outlives what it speaks of.
create table audit (
  id           bigint primary key check (id > 0),
  action       text not null check (action ~ '^[a-z_]{1,64}$'),
  user_id      bigint,
  client       bigint,
  store_id     bigint,
  -- Null where it was done on the machine itself, by the command line.
  address      text check (length(address) <= 64),
  user_agent   text check (length(user_agent) <= 512),
  -- What else there is to say; never a secret.
  detail       jsonb not null,
  date_created timestamptz not null
);
create index audit_user on audit (user_id, id desc);
create index audit_created on audit (date_created);

-- oauth ---------------------------------------------------------------------------------------------------------------

alter table client
  -- Whose app it is; null where the operator made it.
  add column owner bigint references users on delete set null,
  add column contact text check (length(contact) <= 254),
  -- A public client has no secret (RFC 6749 §2.1): PKCE and rotation stand in for it.
  add column is_public boolean not null default false,
  -- False where others made or changed it and the operator has not looked since: the consent page says so.
  add column is_verified boolean not null default true,
  add column rotates_refresh_tokens boolean not null default false,
  -- May leave redirect_uri out at the token endpoint; it is then taken as the only registered one.
  add column is_legacy boolean not null default false,
  add column date_modified timestamptz not null default now(),
  -- From then on it is nobody's, and nothing of it works; what it leaves behind is deleted in small batches, since an app
  -- may have a million grants (in one transaction 100,000 of them kept everybody waiting for 2.4 s).
  add column date_deleted timestamptz,
  add check (not is_public or (rotates_refresh_tokens and not trusted and not is_legacy)),
  -- Whoever owns an app can make a secret of it; one that is trusted is the platform with it.
  add check (not trusted or owner is null),
  -- Set where it registered itself: if nobody has let it in by then, it is deleted.
  add column unused_until timestamptz,
  add check (unused_until is null or not is_verified),
  add check (not is_legacy or cardinality(redirect_uris) = 1);
create index client_owner on client (owner) where owner is not null;
create index client_unused on client (unused_until) where unused_until is not null;
create index client_deleted on client (date_deleted) where date_deleted is not null;

-- A picture of the app, uploaded: nothing is ever fetched from elsewhere.
create table client_logo (
  client        bigint primary key references client on delete cascade,
  media_type    text not null check (media_type in ('image/png', 'image/jpeg', 'image/webp', 'image/gif')),
  bytes         bytea not null check (length(bytes) between 1 and 262144),
  date_modified timestamptz not null
);

-- What lets somebody register clients through the protocol (the initial access token of RFC 7591 §1.2).
create table registration_token (
  hash         bytea primary key check (length(hash) = 32),
  date_created timestamptz not null,
  date_expires timestamptz not null
);
create index registration_token_expires on registration_token (date_expires);

-- When an access token of it was last used, to the hour.
alter table access_grant add column date_used timestamptz;
create index access_grant_revoked on access_grant (date_revoked) where date_revoked is not null;

-- When its successor was made. A token that was rotated stays for a while, so that its reuse is noticed.
alter table refresh_token add column rotated_at timestamptz;
-- Secrets that a rotation has ended.
create index client_secret_expires on client_secret (date_expires) where date_expires is not null;
