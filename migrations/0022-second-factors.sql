-- Passkeys (WebAuthn credentials): only the public key is stored.
create table passkey (
  id            bigint primary key,
  user_id       bigint not null references users (id) on delete cascade,
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
  user_id      bigint primary key references users (id) on delete cascade,
  secret       bytea not null,
  last_step    bigint not null,
  date_created timestamptz not null
);

-- Unused recovery codes; of each only the SHA-256 is stored, because a code has 120 random bits.
create table recovery_code (
  user_id bigint not null references users (id) on delete cascade,
  hash    bytea not null check (length(hash) = 32),
  primary key (user_id, hash)
);

-- Challenges that a passkey has signed, and sign-ins with an OpenID provider that have returned, until they expire: each is accepted once.
create table used_challenge (
  hash         bytea primary key check (length(hash) = 32),
  date_expires timestamptz not null
);
create index used_challenge_expires on used_challenge (date_expires);

-- When the person of a session last proved who they are. Null for sessions of older versions: they have to do it again before a
-- sensitive change. Without a rewrite.
alter table session add column date_verified timestamptz;

-- Whether every member needs a second factor to use the pages of Halcyon. Without a rewrite.
alter table store add column second_factor text not null default 'optional'
  check (second_factor in ('optional', 'required'));
