-- For whom the client of a webhook made it. All people's `halcyon` are one client, and what is held for one of them is fetched,
-- and its key seen, by no other. Empty where the platform made it, and for what was made before: such a held webhook nobody
-- fetches from any more, its listener makes another, and it goes within a day.
alter table webhook add column user_id bigint;
