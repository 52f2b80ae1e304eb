-- The attempt that ends a delivery is stored in the row of the ended delivery; `attempt` has the attempts before it. Most deliveries
-- end with their first attempt and therefore need one row instead of two. Rows of the version before have their last attempt in
-- `attempt`, and a process of that version does not show the attempts that newer ones store here.
--
-- Building the index reads delivery_done once; meanwhile ended deliveries wait to be recorded.
alter table delivery_done
  add column date_started timestamptz,
  add column duration_ms integer,
  add column outcome text,
  add column response_code smallint,
  add column response_headers text,
  add column response_body text;

-- For the log of a webhook. The planner uses it only where a statement says `date_started > '-infinity'`, and never to find a
-- delivery by its id.
create index delivery_done_started on delivery_done (shard, webhook_id, date_started desc) where date_started > '-infinity';

-- Deliveries that ended without an attempt have nulls here. The view does not leave them out, because PostgreSQL pushes orders and
-- limits only into parts of a union without conditions of their own.
create view attempt_log as
select shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome, response_code, response_headers,
  response_body
from attempt
union all
select shard, id, attempts, store_id, webhook_id, event_id, date_started, duration_ms, outcome, response_code, response_headers,
  response_body
from delivery_done;
