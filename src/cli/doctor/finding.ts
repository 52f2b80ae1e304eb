/** What a check of `doctor` gets and finds. */
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Config } from '#config/config.ts';

/** The input of the checks that need a database. */
export type DoctorContext = {
  config: Config;
  clock: Clock;
  /** Connects to `DATABASE_URL`, like requests. */
  sql: Sql;
  /** Connects to PostgreSQL itself; equals `sql` without `DATABASE_DIRECT_URL`. */
  direct: Sql;
};

/** The result of a check, with a remedy. */
export type Finding = {
  /** The name of the check. */
  check: string;
  state: 'ok' | 'warn' | 'fail';
  message: string;
  /** The remedy; absent for `ok`. */
  advice?: string;
};

export function ok(check: string, message: string): Finding {
  return { check, state: 'ok', message };
}

/** Returns a finding about something that works now, but may fail later. */
export function warn(check: string, message: string, advice: string): Finding {
  return {
    check,
    state: 'warn',
    message,
    advice,
  };
}

/** Returns a finding about something that does not work. */
export function fail(check: string, message: string, advice: string): Finding {
  return {
    check,
    state: 'fail',
    message,
    advice,
  };
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

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
