-- The key that replaces the current one of an app's webhook; until the rotation ends, deliveries are signed with both.
alter table app_webhook
  add column next_key bytea,
  add column rotation_ends_at timestamptz,
  add constraint app_webhook_rotation_check check ((next_key is null) = (rotation_ends_at is null));
