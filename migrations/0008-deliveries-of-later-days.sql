-- What a webhook was sent of an event later than on the day of the event: by a recovery, or because somebody asked for it. The
-- day is in both ids (>> 38), and nearly every delivery is of its event's own day, so this is a small index. Without it a
-- recovery does not find that an event has arrived in the end, and sends it once more.
-- Building it reads delivery_done once, 1.3 s a million rows on a busy machine. Until then ends of deliveries wait to be
-- written, and nothing else does.
create index delivery_done_later on delivery_done (shard, webhook_id, event_id) where (id >> 38) <> (event_id >> 38);
