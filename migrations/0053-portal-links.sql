-- A link with which the platform lets a member into the pages of one store. It works once, within a minute; then the row is the session that
-- it began, with another hash. It is no row of session, because a process of the version before would take that for a whole sign-in.
create table portal_session (
  hash bytea primary key check (length(hash) = 32),
  user_id bigint not null,
  store_id bigint not null check (store_id > 0),
  shard smallint not null generated always as ((store_id % 256)::smallint) stored,
  -- The platform's client that made the link: its end ends the session.
  client bigint not null references client (id) on delete cascade,
  is_used boolean not null default false,
  -- The pages may be shown in frames of the origins that the operator allows.
  is_framed boolean not null default false check (is_used or not is_framed),
  date_created timestamptz not null,
  date_expires timestamptz not null,
  foreign key (shard, store_id, user_id) references membership (shard, store_id, user_id) on delete cascade
);
create index portal_session_user on portal_session (user_id);
create index portal_session_client on portal_session (client);
create index portal_session_expires on portal_session (date_expires);
