-- Ids of events and deliveries carry their day and a number of 30 bits, and `event_n` and `delivery_n` began again after 2^30
-- numbers, be it within a day: the second event or delivery with an id was lost. Each day has sequences of its own now, which end
-- with an error. `src/db/numbers.ts` creates them beside the partitions; here those of the partitions that are there.
--
-- Processes of the version before go on with `event_n` and `delivery_n`, which a later version drops. So that no id is given twice
-- while both versions run, the sequences of these days begin 2^28 numbers further on, or at 0 where that leaves more of them.
do $$
declare
  part record;
begin
  for part in
    select c.relname as name, substring(c.relname from '_d([0-9]+)$') as day,
      case p.relname when 'event' then 'event' else 'delivery' end as numbered,
      case p.relname when 'event' then 256 else 1 end as step,
      case p.relname when 'event' then (select last_value from event_n) else (select last_value from delivery_n) end as used
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    join pg_class p on p.oid = i.inhparent
    where p.oid in ('event'::regclass, 'delivery_done'::regclass)
  loop
    execute format('create sequence %I as bigint increment by %s minvalue 0 maxvalue 1073741823 start %s no cycle owned by %I.id',
      part.numbered || '_n_d' || part.day, part.step, case when part.used < 536870912 then part.used + 268435456 else 0 end,
      part.name);
  end loop;
end $$;
