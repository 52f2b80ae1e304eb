-- Webhooks can have a filter: which events are delivered, by the payload. filter_id is a hash of the text, which publishes compare.
-- A process of the previous version ignores filters, so set the first one after the upgrade.
alter table webhook add column filter text;
alter table webhook add column filter_id bigint;
-- Not valid first, so that the rows are checked under a lock that permits writes.
alter table webhook add constraint webhook_filter_check
  check (length(filter) between 1 and 1000 and (filter is null) = (filter_id is null)) not valid;
alter table webhook validate constraint webhook_filter_check;

-- Returns whether an event passes a filter. `known`: the filters that the publisher has evaluated; another filter is newer than those,
-- and fails the statement.
create function passes_filter(filter bigint, known bigint[], passed bigint[]) returns boolean language plpgsql as $$
begin
  if filter = any (known) then
    return filter = any (passed);
  end if;
  raise exception 'a filter is not known to the publisher' using errcode = 'HL002';
end
$$;
