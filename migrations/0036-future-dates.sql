-- A date_modified in the future made all later versions of its resource stale. A publish now treats such a date as none.
update resource set dated_at = null where dated_at > now() + interval '1 hour';
