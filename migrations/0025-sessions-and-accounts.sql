-- What the list of signed-in browsers shows of a session: an id for its button, and where and when it was last used. Sessions of
-- before the migration, and those that a process of the previous version starts, have no address until their next use. The new id
-- rewrites the table, which is small.
alter table session
  add column id bigint not null generated always as identity,
  add column address text check (length(address) <= 64),
  add column user_agent text check (length(user_agent) <= 512),
  -- Written at most every few minutes; null until the first use after the sign-in. The use also moves date_expires.
  add column date_seen timestamptz;
create unique index session_id on session (id);

-- Changes of e-mail addresses. Of the two links only the SHA-256 of their tokens is stored: `hash` is that of the link mailed to the
-- new address, which makes the change until `date_expires`; `undo_hash` that of the link mailed to the former one, which cancels or
-- undoes the change until `date_undo_expires`. A row stays until then, and reserves the former address.
create table email_change (
  hash              bytea primary key check (length(hash) = 32),
  undo_hash         bytea not null check (length(undo_hash) = 32),
  user_id           bigint not null references users (id) on delete cascade,
  old_email         text not null check (length(old_email) >= 3 and length(old_email) <= 254),
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
create index email_change_former on email_change (lower(old_email)) where date_changed is not null;
create index email_change_undo_expires on email_change (date_undo_expires);

-- Links of people who want to create an account: the address is verified by opening the link, before the account exists.
create table sign_up (
  hash         bytea primary key check (length(hash) = 32),
  email        text not null check (length(email) >= 3 and length(email) <= 254),
  date_created timestamptz not null,
  date_expires timestamptz not null,
  check (date_expires > date_created)
);
create index sign_up_email on sign_up (lower(email));
create index sign_up_expires on sign_up (date_expires);
