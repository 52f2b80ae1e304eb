-- The keys that the clients of the platform give to resources (`external_id`), so that a program that provisions them can be repeated. Each
-- client has its own keys, and sees no others. A table of its own, because the copies of stores in other databases have no keys, and
-- because a column of `store` would need an index, whose creation blocks writes.
create table external_key (
  client      bigint not null references client on delete cascade,
  resource    text collate "C" not null check (resource in ('store', 'user', 'client')),
  key         text collate "C" not null check (length(key) >= 1 and length(key) <= 64),
  -- Null only in the transaction that makes the resource: it inserts the key first, so that this index decides which of two requests does.
  resource_id bigint,
  primary key (client, resource, key)
);
create unique index external_key_resource on external_key (resource, resource_id, client);

-- Whether the platform has set the address (PLATFORM_EMAILS_VERIFIED), and the person has not: its reader may be another person, and gets no
-- link that takes the account back.
alter table users add column is_email_of_platform boolean not null default false;

-- Increases with each change of what the API shows of a user, for conditional requests.
alter table users add column revision integer not null default 0;

-- Memberships by an account at an OpenID provider. Without a user they wait for the first sign-in with the account. The row ends with the
-- membership, so that the end is final; it stays when the person unlinks the account, so that the platform can still end the membership by it.
create table awaited_member (
  shard        smallint not null,
  store_id     bigint not null,
  issuer       text collate "C" not null check (length(issuer) between 1 and 2000),
  subject      text collate "C" not null check (length(subject) >= 1 and length(subject) <= 255),
  role         text not null check (role in ('owner', 'member')),
  date_created timestamptz not null,
  user_id      bigint,
  primary key (shard, store_id, issuer, subject),
  foreign key (shard, store_id) references store on delete cascade,
  foreign key (shard, store_id, user_id) references membership on delete cascade
);
create index awaited_member_user on awaited_member (shard, store_id, user_id) where user_id is not null;
create index awaited_member_identity on awaited_member (issuer, subject);
