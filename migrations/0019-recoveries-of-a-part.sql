-- A recovery may be limited to events before `until`, and to events of one kind. Without a rewrite. A process of the previous version
-- that executes a recovery while both versions run ignores the limits and sends all missed events since `since`.
alter table recovery add column until timestamptz, add column event text;
