/** Explains a 503 whose reason is the database. */
import { isOutOfNumbers } from './numbers.ts';
import { isWithoutPartition } from './partitions.ts';
import { isDiskFull, isMoving, isUnavailable } from './unavailable.ts';

/** Returns the message of a 503 if the database is the reason of an error, and undefined otherwise. */
export function whyUnavailable(error: unknown): string | undefined {
  if (isDiskFull(error))
    return 'The disk of the database is full (53100): nothing can be written until space is freed; try again then';
  if (isMoving(error)) return 'The shard of this store changes its database; try again in a few seconds';
  if (isUnavailable(error)) return 'The service cannot reach its database; try again shortly';
  if (isWithoutPartition(error)) return 'The database has no tables for this day yet; try again shortly';
  if (isOutOfNumbers(error)) return 'All ids of this day are used; new ones are available from midnight UTC';
  return undefined;
}
