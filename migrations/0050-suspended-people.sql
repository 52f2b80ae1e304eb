-- Why an operator has suspended a person, who is disabled meanwhile; null for a person who is not, or whom the command line disabled. The words
-- are shown to the person.
alter table users add column disabled_reason text
  check (length(disabled_reason) >= 1 and length(disabled_reason) <= 200);
