-- Why an operator has suspended a store: null while it is not suspended. The words are shown to its members and to the apps that use it.
alter table store add column suspended_reason text
  check (length(suspended_reason) >= 1 and length(suspended_reason) <= 200);
