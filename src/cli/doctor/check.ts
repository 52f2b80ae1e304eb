/** The form of the checks of `doctor`: what each reads, its verdicts and their advice; and how checks run. */
import type { Sql } from '#db/pool.ts';
import { UnusableError } from '#db/usable.ts';
import type { Clock } from '#core/clock.ts';
import type { Config } from '#config/config.ts';

/** What the checks of a database use. */
export type Database = {
  config: Config;
  clock: Clock;
  /** Connects to `DATABASE_URL`, like requests. */
  sql: Sql;
  /** Connects to PostgreSQL itself; equals `sql` without `DATABASE_DIRECT_URL`. */
  direct: Sql;
};

/** `warn`: works now, but may fail later. `fail`: does not work. */
type Problem = { state: 'warn' | 'fail'; message: string; advice: string };
export type Verdict = { state: 'ok'; message: string } | Problem;

/** A verdict with the name of its check; `advice` is absent for `ok`. */
export type Finding = { check: string; state: Verdict['state']; message: string; advice?: string };

export function ok(message: string): Verdict {
  return { state: 'ok', message };
}

export function warn(message: string, advice: string): Verdict {
  return { state: 'warn', message, advice };
}

export function fail(message: string, advice: string): Verdict {
  return { state: 'fail', message, advice };
}

/** Returns the verdict of the first condition that is true; `ok` if none is. */
export function graded(is: { fail: boolean; warn: boolean }, message: string, advice: string): Verdict {
  if (is.fail) return fail(message, advice);
  return is.warn ? warn(message, advice) : ok(message);
}

/** A row of a table of checks. */
export type Check<Place> = {
  name: string;
  run: (place: Place) => Promise<readonly Verdict[]>;
  /** The checks below need what this one checks: they are skipped if it fails. */
  isRequired?: true;
  /** The duration of the check's own wait. */
  waitsMs?: (place: Place) => number;
};

/** Returns the problems; `ok` with the message if there are none. */
export function orOk(problems: readonly Verdict[], message: string): readonly Verdict[] {
  return problems.length > 0 ? problems : [ok(message)];
}

const CHECK_MS = 20_000;

/** Returns the time limit of a check: that of all checks plus its own wait. */
export function limitMsOf<Place>({ waitsMs }: Check<Place>, place: Place): number {
  return CHECK_MS + (waitsMs?.(place) ?? 0);
}

/** Returns the findings of a check; an error or a time-out is a finding as well. */
async function runCheck<Place>(one: Check<Place>, place: Place): Promise<readonly Verdict[]> {
  const limitMs = limitMsOf(one, place);
  const { promise: late, reject } = Promise.withResolvers<never>();
  using _timer = setTimeout(() => reject(new Error(`no response within ${limitMs / 1_000} s`)), limitMs);
  try {
    return await Promise.race([one.run(place), late]);
  } catch (error) {
    if (error instanceof UnusableError) return [fail(error.problem, error.remedy)];
    const message = error instanceof Error ? error.message : String(error);
    return [fail(`the check failed: ${message}`, 'Run this again; an earlier finding may be the reason')];
  }
}

/** Runs checks in their order until a required one fails, and reports after each; returns whether all required ones passed. */
export async function runChecks<Place>(
  checks: readonly Check<Place>[],
  place: Place,
  report: (found: Finding[]) => void,
): Promise<boolean> {
  for (const one of checks) {
    const found = await runCheck(one, place);
    report(found.map((verdict) => ({ check: one.name, ...verdict })));
    if (one.isRequired === true && found.some(({ state }) => state === 'fail')) return false;
  }
  return true;
}

export const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

/** Returns a count with its noun: `1 shard`, `2,000 shards`; `many` is an irregular plural. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${whole.format(count)} ${count === 1 ? one : many}`;
}

const UNITS = [
  [86_400, 'day'],
  [3_600, 'hour'],
  [60, 'minute'],
] as const;

/** Returns a duration in the largest unit of which there are at least two. */
export function spanOf(seconds: number): string {
  const [size, unit] = UNITS.find(([each]) => seconds >= 2 * each) ?? [1, 'second'];
  return countOf(Math.floor(seconds / size), unit);
}
