/** Schema and validation of a request for a recovery. */
import { Type, type Static } from 'typebox';
import { formatDate, parseDate } from '#hypermedia/date.ts';
import type { Fault } from '#core/problem.ts';

const DATE_LENGTH_MAX = 40;
const DAY_MS = 86_400_000;

export const recoverySchema = Type.Object(
  {
    since: Type.String({
      minLength: 1,
      maxLength: DATE_LENGTH_MAX,
      kind: 'date',
      description: 'The start of the period to recover, such as 2026-11-20 or 2026-11-20T16:05:03+0000.',
    }),
  },
  { additionalProperties: false },
);

export type RecoveryBody = Partial<Static<typeof recoverySchema>>;

const invalidSince = (message: string): { fault: Fault } => ({
  fault: { code: 'invalid_value', message, field: 'since' },
});

/** Returns the requested start, or a fault if it is no date, in the future, or before the retention period. */
export function readSince(
  { since = '' }: RecoveryBody,
  { now, retentionDays }: { now: Date; retentionDays: number },
): { since: Date } | { fault: Fault } {
  const at = parseDate(since);
  if (at === undefined) return invalidSince('since must be a date such as 2026-11-20 or 2026-11-20T16:05:03+0000');
  if (at > now) return invalidSince(`since must not be in the future: now is ${formatDate(now, 'UTC')}`);
  const earliest = new Date(now.getTime() - retentionDays * DAY_MS);
  if (at >= earliest) return { since: at };
  const kept = `events are kept for ${retentionDays} days`;
  return invalidSince(`since must not be before ${formatDate(earliest, 'UTC')}: ${kept}`);
}
