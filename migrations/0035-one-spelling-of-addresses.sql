-- Addresses of accounts are stored in the one spelling of src/core/email.ts: the domain mapped by UTS 46, everything in lower case. Of two
-- accounts with the same address, the one that has this spelling already gets it, then the verified and older one; the other keeps its
-- text, with which no one signs in.
--
-- The index of lower(email) stays while processes of the previous version run, which insert users by it.
create function pg_temp.one_spelling(email text) returns text language sql immutable as $$
  select lower(normalize(replace(translate(email, '。．｡', '...'), U&'\00AD', ''), NFKC))
$$;

update users u set email = one.email
from (
  select id, pg_temp.one_spelling(email) as email,
    row_number() over (partition by pg_temp.one_spelling(email) 
      order by lower(email) = pg_temp.one_spelling(email) desc, is_email_verified desc, id) as place
  from users
) one
where one.id = u.id and one.place = 1 and one.email <> u.email and length(one.email) between 3 and 254;

update sign_up set email = pg_temp.one_spelling(email)
where email <> pg_temp.one_spelling(email) and length(pg_temp.one_spelling(email)) between 3 and 254;
update invitation set email = pg_temp.one_spelling(email)
where email <> pg_temp.one_spelling(email) and length(pg_temp.one_spelling(email)) between 3 and 254;
update email_change set old_email = pg_temp.one_spelling(old_email), new_email = pg_temp.one_spelling(new_email)
where length(pg_temp.one_spelling(old_email)) between 3 and 254 and length(pg_temp.one_spelling(new_email)) between 3 and 254;

create unique index users_address on users (email);
drop index sign_up_email;
create index sign_up_email on sign_up (email);
drop index invitation_email;
create index invitation_email on invitation (email) where email is not null;
drop index email_change_former;
create index email_change_former on email_change (old_email) where date_changed is not null;

drop function pg_temp.one_spelling(text);
