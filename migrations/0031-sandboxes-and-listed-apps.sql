-- A developer has at most one sandbox store. The user is erased only together with it.
alter table store add column sandbox_of bigint references users (id);
create unique index store_sandbox_of on store (sandbox_of) where sandbox_of is not null;

-- The page of an app, which its developer may publish, and the address that installs it (OpenID Connect Core 1.0 §4).
alter table client add column is_listed boolean not null default false;
alter table client add column client_uri text check (length(client_uri) between 1 and 2000);
alter table client add column policy_uri text check (length(policy_uri) between 1 and 2000);
alter table client add column tos_uri text check (length(tos_uri) between 1 and 2000);
alter table client add column initiate_login_uri text check (length(initiate_login_uri) between 1 and 2000);
