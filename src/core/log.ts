import { pino, stdSerializers, type DestinationStream, type Logger, type LoggerOptions } from 'pino';

export type Log = Logger;

/**
 * Fields of PostgreSQL errors, by their names in the log, that only name schema objects. DETAIL, HINT and CONTEXT are omitted because
 * they quote rows and parameters.
 */
const NAMES = {
  code: 'code',
  severity: 'severity',
  routine: 'routine',
  schema_name: 'schema',
  table_name: 'table',
  column_name: 'column',
  constraint_name: 'constraint',
} as const;

/** Returns whether the message quotes a value, as in SQLSTATE class 22 (data exception). */
const isQuoting = (code: unknown): boolean => String(code).startsWith('22');

/** Serializes a PostgreSQL error without the values in it, which may be personal data; other errors unchanged. */
function errorForLog(error: Error): object {
  if (error.name !== 'PostgresError') return stdSerializers.err(error);
  const { message, stack = '' } = error;
  const members = error as Partial<Record<(typeof NAMES)[keyof typeof NAMES], string>>;
  const at = stack.indexOf(message);
  return {
    type: error.name,
    message: isQuoting(members.code) ? 'omitted: it quotes a value' : message,
    ...Object.fromEntries(Object.entries(NAMES).map(([name, member]) => [name, members[member]])),
    stack: at === -1 ? undefined : stack.slice(at + message.length).trimStart(),
  };
}

const UNAVAILABLE_EVERY_MS = 60_000;

/** Returns the code of the first error in the chain of causes that says that a database is unavailable. */
function codeOfUnavailable(error: unknown, isUnavailable: (error: unknown) => boolean): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause)
    if (isUnavailable(at)) return (at as NodeJS.ErrnoException).code;
  return undefined;
}

type Line = { err?: unknown; database?: unknown; webhook?: unknown };

/**
 * Limits log lines about an unavailable database to one per minute for each message, reason and database: every request and batch
 * fails for the same reason, and the disk that is full may be that of the log. `repeated` is the number of lines that were dropped
 * since the last one.
 */
function createUnavailableLimit(isUnavailable: (error: unknown) => boolean, nowMs: () => number) {
  const written = new Map<string, { nextMs: number; repeated: number }>();
  return (line: Line, message: unknown): object | undefined => {
    const code = codeOfUnavailable(line.err, isUnavailable);
    // What is lost for a webhook is said of each.
    if (code === undefined || line.webhook !== undefined) return line;
    const key = JSON.stringify([message, code, line.database]);
    const last = written.get(key);
    if (last !== undefined && nowMs() < last.nextMs) {
      last.repeated += 1;
      return undefined;
    }
    written.set(key, { nextMs: nowMs() + UNAVAILABLE_EVERY_MS, repeated: 0 });
    return last === undefined || last.repeated === 0 ? line : { ...line, repeated: last.repeated };
  };
}

type LogDeps = {
  /** Returns whether an error says that a database is unavailable; lines about one are limited. */
  isUnavailable?: (error: unknown) => boolean;
  nowMs?: () => number;
};

/** Creates a log with one JSON line per entry, on standard output by default; `level` is pino's, `silent` disables it. */
export function createLog(
  level: string,
  to?: DestinationStream,
  { isUnavailable = () => false, nowMs = () => performance.now() }: LogDeps = {},
): Log {
  const limitUnavailable = createUnavailableLimit(isUnavailable, nowMs);
  const options: LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { err: errorForLog },
    hooks: {
      logMethod([about, ...rest], method) {
        const line = typeof about === 'object' && about !== null ? limitUnavailable(about, rest[0]) : about;
        if (line !== undefined) method.apply(this, [line as never, ...rest]);
      },
    },
    // A second protection: the code does not log these, and if it does, they are masked.
    redact: {
      paths: ['*.authorization', '*.cookie', '*.password', '*.client_secret', '*.encryption_key'],
      censor: '***',
    },
  };
  return to === undefined ? pino(options) : pino(options, to);
}
