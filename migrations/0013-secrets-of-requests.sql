-- The query of a webhook's url and the values of its headers often are tokens. They are sealed as one text like encryption_key;
-- `url` keeps what stands before the question mark, and `headers` the names with null. A process of the version before reads such
-- a row as a webhook without them: docs/operating.md, "Upgrading". Rows that are there are sealed by the housekeeping.
alter table webhook add column request_secrets bytea;

-- Those that are not sealed yet: all of them after this migration, then those that a process of the version before writes.
create index webhook_clear on webhook (shard, id)
  where position('?' in url) > 0 or jsonb_path_exists(headers, '$.* ? (@ != null)');
