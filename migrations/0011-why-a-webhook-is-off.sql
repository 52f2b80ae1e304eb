-- Why Halcyon switched a webhook off; null where it is on, or a person or an app switched it off.
alter table webhook add column inactive_reason text
  check (inactive_reason in ('failures', 'gone', 'access_ended'));

-- The webhooks that an app made for a person, found when the access of that app ends.
create index webhook_maker on webhook (client, user_id) where client is not null;
create index webhook_user on webhook (user_id) where client is not null;
