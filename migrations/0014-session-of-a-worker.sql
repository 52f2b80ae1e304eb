-- The session that sends the heartbeats of a worker. When it has ended, the worker's process has ended too, or has lost the
-- connection and reports a new session within moments: another worker need not wait for the lease. Null for a worker of the version
-- before, whose lease is waited for.
alter table worker
  add column backend_pid integer,
  add column backend_started timestamptz;
