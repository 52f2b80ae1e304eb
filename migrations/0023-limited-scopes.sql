-- Grants for parts of a store. `store_limited` is a grant for one store that permits only what `permissions` lists: the scopes that
-- the user allowed, in the order of the server's list. Processes of the previous version refuse its tokens.
alter table access_grant
  add column permissions text[],
  -- Set when a newer grant of the same app, user, store and scopes replaces this one: until then its tokens work.
  add column date_ends timestamptz,
  drop constraint access_grant_check,
  drop constraint access_grant_scope_check,
  add constraint access_grant_scope_check
    check (scope in ('store_full_access', 'store_limited', 'user_full_access', 'platform')),
  add constraint access_grant_store_check
    check ((scope in ('store_full_access', 'store_limited')) = (store_id is not null)),
  add constraint access_grant_permissions_check
    check ((scope = 'store_limited') = (permissions is not null) and cardinality(permissions) > 0);
create index access_grant_ends on access_grant (date_ends) where date_ends is not null and date_revoked is null;

-- The scopes of a token that a refresh narrowed; null if the token permits what its grant permits.
alter table access_token
  add column permissions text[] check (cardinality(permissions) > 0);

-- `scopes`: those that the client may ask for; null for the two with full access, as before this migration.
alter table client
  add column scopes text[] check (cardinality(scopes) > 0),
  add column requires_pkce boolean not null default false;
