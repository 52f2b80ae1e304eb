/** SQL that finds the events of one resource by their chain, without an index that every publish would have to write. */
import { resourceTypes } from '#catalog/catalog.ts';
import type { Queryable } from '#db/pool.ts';
import { firstIdOfDay } from '#core/ids.ts';
import type { Filter } from '#core/listing.ts';
import { SAMPLE_ID } from './publish/test-event.ts';

/** A resource with more events is searched like any other property: following a chain takes about 10 µs an event. */
const CHAIN_MAX = 5_000;
/** Samples and derived steps have ids that Halcyon allocates; both may have events in no chain. */
const FIRST_ALLOCATED_ID = firstIdOfDay(1);

const valueOf = (filters: readonly Filter[], name: string): string | undefined => {
  const values = filters.filter(({ property, operator }) => property === name && operator === 'is');
  return values.length === 1 && typeof values[0]?.value === 'string' ? values[0].value : undefined;
};

const isOfResource = ({ property, operator }: Filter): boolean =>
  operator === 'is' && (property === 'resource_id' || property === 'resource_type');

/** `ids`: events of the resource in the filters. `others`: filters that still have to be applied. */
export type ResourceEvents = { ids: readonly number[]; others: readonly Filter[] };

/**
 * Returns the events of the resource that the filters name by `resource_id`, with or without `resource_type`. Returns undefined if
 * they name none, or if a chain may lack some of its events: samples of test deliveries are in no chain, an erasure begins a new
 * one, and a resource that does not exist has none. Events whose successor has an id of an earlier day, because the clocks of
 * processes differ, are missing from the day on which retention drops the successor until they are dropped, too.
 */
export async function findEventsOfResource(
  sql: Queryable,
  { shard, storeId }: { shard: number; storeId: number },
  filters: readonly Filter[],
): Promise<ResourceEvents | undefined> {
  const id = valueOf(filters, 'resource_id');
  if (id === undefined || id === String(SAMPLE_ID) || Number(id) >= FIRST_ALLOCATED_ID) return undefined;
  const type = valueOf(filters, 'resource_type');
  if (type === undefined && filters.some(({ property }) => property === 'resource_type')) return undefined;
  const types = type === undefined ? resourceTypes() : [type];
  const [row] = await sql<{ exists: boolean; wasErased: boolean; ids: number[] }[]>`
    with recursive head as materialized (
      select coalesce(head_event_id, event_id) as id from resource
      where shard = ${shard} and store_id = ${storeId} and type = any(${types}::text[]) and id = ${id}
    ), chain as (
      select e.id, e.previous_id from head
      cross join lateral (select id, previous_id from event where shard = ${shard} and id = head.id limit 1) as e
      union all
      select before.id, before.previous_id from chain
      cross join lateral (
        select id, previous_id from event where shard = ${shard} and id = chain.previous_id limit 1
      ) as before
    )
    select exists(select from head) as "exists", exists(
        select from erased_resource
        where shard = ${shard} and store_id = ${storeId} and type = any(${types}::text[]) and id = ${id}
      ) as "wasErased", array(select id from chain limit ${CHAIN_MAX + 1}) as ids`;
  if (row === undefined || !row.exists || row.wasErased || row.ids.length > CHAIN_MAX) return undefined;
  return { ids: row.ids, others: filters.filter((filter) => !isOfResource(filter)) };
}
