-- Accounts at OpenID providers with which people sign in. `issuer` and `subject` identify such an account for ever; its e-mail
-- address, which may change, is not stored.
create table external_identity (
  id           bigint primary key,
  issuer       text not null check (length(issuer) between 1 and 2000),
  subject      text not null check (length(subject) between 1 and 255),
  user_id      bigint not null references users (id) on delete cascade,
  date_created timestamptz not null,
  date_used    timestamptz not null
);
create unique index external_identity_subject on external_identity (issuer, subject);
create index external_identity_user on external_identity (user_id);

-- Whether the person knows a password: false for an account that a sign-in with a provider has created, until the person chooses
-- one. Without a rewrite. A process of the previous version that stores a password leaves the column as it is, which only keeps the
-- person from unlinking the last provider until the next change of the password.
alter table users add column has_password boolean not null default true;
