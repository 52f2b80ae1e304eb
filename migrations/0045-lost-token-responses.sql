-- A client that loses a response of /token sends its rotated refresh token again. It gets the same successor until that is used, or an
-- access token that was issued with it.

-- False from the rotation on, true once the successor has been used. Null for the current token of a grant, and for one that a process of the
-- version before has rotated: for ten seconds a use of it is a retry.
alter table refresh_token add column successor_used boolean;
-- The rotated token in whose place this one was issued.
alter table refresh_token add column predecessor bytea check (length(predecessor) = 32);
-- The rotated refresh token for which this one was issued. Its first use sets it to null, so that later ones need no write.
alter table access_token add column predecessor bytea check (length(predecessor) = 32);
