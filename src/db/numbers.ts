/**
 * Allocates the numbers of event and delivery ids. Each day has a sequence for events and one for deliveries: each begins at
 * 0, so ids of a day rise, and ends with an error after 2³⁰ numbers, so no id is allocated twice. A sequence is dropped with its
 * day's partition.
 *
 * One sequence per shard and day would allow 256 times as many deliveries, but 256 sequences take 95 ms to create at the first
 * start, and their names cost 0.25–0.5 µs of a row's 30.
 */
import { firstIdOfDay, NUMBERS_A_DAY, SHARDS } from '#core/ids.ts';
import type { Queryable } from './pool.ts';

/** Numbers that an event writer allocates at a time and may use once in each shard. */
export const EVENT_BLOCK = 256;
/**
 * How long a process uses a block. Ids of an older one would be far lower than others of the same time, and lists ordered by id would
 * show them too late. With this age, 242 processes that write an event now and then use up the numbers of a day (17,280 blocks of
 * 256 each).
 */
export const BLOCK_AGE_MS = 5_000;

export type Numbered = 'event' | 'delivery';
/** The partitioned tables whose days have a sequence. */
const NUMBERED: Readonly<Record<string, Numbered>> = { event: 'event', delivery_done: 'delivery' };

const sequenceOf = (numbered: Numbered, day: number): string => `${numbered}_n_d${day}`;

/** Creates the sequence of a day's partition, if its table has one. */
export async function createNumbers(
  sql: Queryable,
  { parent, name, day }: { parent: string; name: string; day: number },
): Promise<void> {
  const numbered = NUMBERED[parent];
  if (numbered === undefined) return;
  const step = numbered === 'event' ? EVENT_BLOCK : 1;
  // Bounds cannot be parameters.
  await sql.unsafe(`create sequence if not exists ${sequenceOf(numbered, day)} as bigint increment by ${step}
    minvalue 0 maxvalue ${NUMBERS_A_DAY - 1} no cycle owned by ${name}.id`);
}

/** Returns the SQL of the next delivery id of a day in the shard that `shard` is the SQL of. */
export function nextDeliveryId(sql: Queryable, day: number, shard: ReturnType<Queryable>) {
  return sql`(${firstIdOfDay(day)}::bigint + nextval(${sequenceOf('delivery', day)}::regclass) * ${SHARDS}::int + ${shard})`;
}

/**
 * Returns the first number of a block that only the caller has (`EVENT_BLOCK` numbers for each shard), and undefined if the
 * day has no sequence yet: an error would end the caller's transaction.
 */
export async function nextEventBlock(sql: Queryable, day: number): Promise<number | undefined> {
  const [row] = await sql<{ n: number | null }[]>`
    select nextval(to_regclass(${sequenceOf('event', day)}))::float8 as n`;
  return row?.n ?? undefined;
}

/** Returns the newest day that has an event, and undefined if none has. */
export async function newestNumberedDay(sql: Queryable): Promise<number | undefined> {
  const [row] = await sql<{ day: number | null }[]>`
    select max(substring(sequencename from '[0-9]+$')::int) as day from pg_sequences
    where schemaname = current_schema() and sequencename ~ '^event_n_d[0-9]+$' and last_value is not null`;
  return row?.day ?? undefined;
}

/** Returns the share of a day's numbers that is used (0–1), of those that have a sequence for that day. */
export async function readUsedNumbers(sql: Queryable, day: number): Promise<ReadonlyMap<Numbered, number>> {
  const kinds = Object.values(NUMBERED);
  const rows = await sql<{ kind: Numbered; used: number }[]>`
    select kind, coalesce(last_value, 0)::float8 / ${NUMBERS_A_DAY} as used
    from unnest(${kinds}::text[], ${kinds.map((kind) => sequenceOf(kind, day))}::text[]) as wanted (kind, name)
    join pg_sequences on schemaname = current_schema() and sequencename = wanted.name`;
  return new Map(rows.map(({ kind, used }) => [kind, used]));
}
