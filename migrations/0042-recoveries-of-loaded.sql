-- A recovery can send the resources of a type that were loaded and not published since, as refeeds, instead of missed events. Its cursor is
-- then the id of a resource; columns that count events count resources.
alter table recovery
  add column loaded_type text collate "C",
  add column after_resource_id text collate "C" not null default '' check (length(after_resource_id) <= 255),
  add check (loaded_type is not null or after_resource_id = '');
