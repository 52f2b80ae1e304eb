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
  foreign key (shard, store_id) references store (shard, id) on delete cascade,
  foreign key (shard, store_id, created_by) references membership (shard, store_id, user_id) on delete cascade,
  check (mailed_hash is null or email is not null),
  check (date_expires > date_created)
);
create unique index invitation_hash on invitation (hash);
create unique index invitation_mailed_hash on invitation (mailed_hash) where mailed_hash is not null;
create index invitation_creator on invitation (shard, store_id, created_by);
create index invitation_email on invitation (lower(email)) where email is not null;
create index invitation_expires on invitation (date_expires);

-- The person who accepts a link that was not mailed chooses the address of the new account, so the address proves nothing. Without a rewrite.
alter table users add column is_email_verified boolean not null default true;
