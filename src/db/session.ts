/** Settings of each session, which replace those of the role, the database and the server (`ALTER … SET`). */

/**
 * What PostgreSQL reads, writes and does depends on these. `search_path` is not among them: it is how an operator chooses the
 * schema. `client_encoding` is set by the driver.
 */
export const SESSION = {
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  standard_conforming_strings: 'on',
  bytea_output: 'hex',
  array_nulls: 'on',
  extra_float_digits: '1',
  quote_all_identifiers: 'off',
  transform_null_equals: 'off',
  default_transaction_isolation: 'read committed',
  exit_on_error: 'off',
} as const;

/** PgBouncer keeps these settings of a client whose session changes. */
const KEPT: ReadonlySet<string> = new Set(['TimeZone', 'DateStyle', 'standard_conforming_strings']);
/** Settings that the sessions behind a pooler must begin with. */
export const OF_POOLED = Object.entries(SESSION).filter(([name]) => !KEPT.has(name));

/** Halcyon limits the time of its statements itself; migrations, locks of a session and idle connections have no limit. */
export const LIMITS = {
  statement_timeout: '0',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  idle_session_timeout: '0',
};

/**
 * Every statement can use an index. Sequential scans are off because a plan made while a table was small is kept until statistics
 * are collected, a minute in which 100,000 rows may arrive; JIT is off because it would treat the penalised scans as expensive.
 * Parallel workers are off because one search would use the cores of all other statements. Without generic plans, a publish of one
 * event takes twice as long, as it does behind a pooler.
 */
const PLANNING = {
  enable_seqscan: 'off',
  jit: 'off',
  max_parallel_workers_per_gather: '0',
  plan_cache_mode: 'force_generic_plan',
};

/** Returns settings as the startup parameter `options`. */
const optionsOf = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replaceAll(/[\\\s]/g, String.raw`\$&`)}`)
    .join(' ');

/**
 * Returns the startup parameter `options` of a session, and a statement that its connection executes. The parameters are those of
 * the address of the database: they may replace limits and settings of the planner.
 */
export function sessionOf(
  { options: more = '', ...parameters }: Readonly<Record<string, string>>,
  isShared: boolean,
): { options: string; setUp: string | undefined } {
  if (!isShared) {
    const options = [optionsOf({ ...LIMITS, ...PLANNING, ...parameters }), more, optionsOf(SESSION)];
    return { options: options.join(' '), setUp: undefined };
  }
  // PgBouncer 1.18 refuses `options`.
  return {
    options: `${optionsOf(parameters)} ${more}`.trim(),
    setUp: Object.entries(SESSION)
      .map(([name, value]) => `set ${name} = '${value}'`)
      .join('; '),
  };
}
