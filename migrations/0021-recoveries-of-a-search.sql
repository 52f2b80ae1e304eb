-- A recovery may be limited to events with a failed delivery, to events of a resource, and to failed deliveries whose last response had a
-- status or a text. Without a rewrite. A process of the previous version that executes a recovery while both versions run ignores these
-- limits and sends all missed events.
alter table recovery
  add column only_failed boolean not null default false,
  add column resource_id text check (length(resource_id) <= 255),
  add column response_code integer check (response_code between 100 and 999),
  add column response_body text check (length(response_body) <= 1000);
