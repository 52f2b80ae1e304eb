-- The trace context (W3C Trace Context) of the request that published the event, which its deliveries continue: `traceparent`, and after a blank
-- `tracestate` if there is one. Null, as written by a process of the version before: the deliveries have no trace headers. An event without
-- one costs no WAL if it is the first of its resource; of a later one, whose row had no NULL, the bitmap of NULLs takes 8 bytes.
alter table event add column trace_context text;
