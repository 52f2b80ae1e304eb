-- A lane is read through this index alone, and a delivery by its key is never looked for in it: the planner uses it where a
-- statement says `due_at > '-infinity'`. While the table was empty for the statistics, it read all entries of the shard here
-- to find one id.
create index delivery_due on delivery (shard, webhook_id, due_at, id) where due_at > '-infinity';
drop index delivery_lane;

-- Numbers that a session keeps for itself are given out late: of two publishes, one after the other on two connections, the
-- second had the lower ones, and its deliveries were sent first.
alter sequence delivery_n cache 1;
