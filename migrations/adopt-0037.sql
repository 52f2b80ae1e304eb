-- Gives a database of migration 0037, the last of those that 0038-schema.sql replaces, the schema of 0038. Halcyon runs it in one
-- transaction, compares the result with that of 0038-schema.sql, and replaces the list of migrations.

-- Released code reads no clear text. Commit 5de66331 encrypts it within minutes.
do $$ begin
  if exists (select from webhook where position('?' in url) > 0 or jsonb_path_exists(headers, '$.* ? (@ != null)')) then
    raise exception 'webhooks have unencrypted headers or queries: run "halcyon serve" of commit 5de66331 until it has encrypted them';
  end if;
end $$;

-- Existed for processes and rows of earlier versions only.
drop index webhook_clear;
drop index users_email;
drop sequence event_n;
drop sequence delivery_n;
alter table access_grant rename constraint access_grant_check1 to access_grant_user_check;
alter table webhook rename constraint webhook_check3 to webhook_events_check;

-- Keys. PostgreSQL builds their indexes again.
alter table day_count alter list type text collate "C";
alter table day_kind_count alter list type text collate "C", alter kind type text collate "C";
alter table sign_up alter email type text collate "C";
alter table email_change alter old_email type text collate "C";
alter table external_identity alter issuer type text collate "C", alter subject type text collate "C";
alter table client alter client_id type text collate "C";
alter table publish_key alter key type text collate "C";
alter table subscription_term alter subscription_id type text collate "C";
alter table erased_resource alter type type text collate "C", alter id type text collate "C";
alter table webhook_hour alter outcome type text collate "C";
alter table shard_database alter name type text collate "C";

-- A column that a generated one uses cannot be altered, so the generated one is made again, which rewrites the table.
alter table resource
  drop parent_id,
  alter type type text collate "C",
  alter id type text collate "C",
  add parent_id text collate "C" generated always as (left(
    case type
      when 'transaction' then body::json ->> 'customer_id'
      when 'subscription' then body::json ->> 'customer_id'
      when 'transaction_log' then body::json ->> 'transaction_id'
      when 'subscription_event' then body::json ->> 'subscription_id'
    end, 64)) stored;
create index resource_parent on resource (shard, store_id, type, parent_id) where parent_id is not null;

-- The search for copies of an erased customer begins again: its progress is a key of `resource`, whose order may have changed.
alter table erased_customer alter id type text collate "C";
update erased_customer set after_type = '', after_id = '' where before_event_id is null;
