-- Events that are dated before the erasure of their resource are stored without their bodies, also if they arrive after it. Null if
-- the resource was erased before this migration: the row has only the version.
alter table erased_resource add column date_erased timestamptz;
