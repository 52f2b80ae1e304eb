-- The acts of operators, of commands and of programs of the platform, which are few among the sign-ins of people, and which the console lists.
create index audit_acts on audit (id desc) where (address is null and action <> 'grant_retired') or detail ? 'by_client'
  or (client is not null and action in ('user_created', 'user_erased', 'email_changed'));
