-- People who see all stores and apps on the pages below /operator. Only the command line writes it.
alter table users add column is_operator boolean default false not null;
