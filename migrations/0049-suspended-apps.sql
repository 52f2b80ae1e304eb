-- Why an operator has suspended an app: null while it is not suspended. The words are shown to its developer and its users.
alter table client add column suspended_reason text
  check (length(suspended_reason) >= 1 and length(suspended_reason) <= 200);

-- `suspended`: an operator has suspended the app that created the webhook. The end of the suspension enables it again, and no other webhook.
alter table webhook drop constraint webhook_inactive_reason_check;
alter table webhook add constraint webhook_inactive_reason_check
  check (inactive_reason in ('failures', 'gone', 'access_ended', 'suspended'));
