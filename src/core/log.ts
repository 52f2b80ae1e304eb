import { pino, stdSerializers, type DestinationStream, type Logger, type LoggerOptions } from 'pino';

export type Log = Logger;

/**
 * Fields of PostgreSQL errors that only name schema objects. DETAIL, HINT and CONTEXT are omitted because they quote rows and
 * parameters.
 */
const NAMES = ['code', 'severity', 'routine', 'schema_name', 'table_name', 'column_name', 'constraint_name'] as const;

/** Returns whether the message quotes a value, as in SQLSTATE class 22 (data exception). */
const isQuoting = (code: unknown): boolean => String(code).startsWith('22');

/** Serializes a PostgreSQL error without the values in it, which may be personal data; other errors unchanged. */
function errorForLog(error: Error): object {
  if (error.name !== 'PostgresError') return stdSerializers.err(error);
  const { message, stack = '' } = error;
  const members = error as Partial<Record<(typeof NAMES)[number], string>>;
  const at = stack.indexOf(message);
  return {
    type: error.name,
    message: isQuoting(members.code) ? 'omitted: it quotes a value' : message,
    ...Object.fromEntries(NAMES.map((name) => [name, members[name]])),
    stack: at === -1 ? undefined : stack.slice(at + message.length).trimStart(),
  };
}

/** SQLSTATE disk_full. */
const DISK_FULL = '53100';
const DISK_FULL_EVERY_MS = 60_000;

function isDiskFull(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if ((at as { code?: unknown }).code === DISK_FULL) return true;
  return false;
}

/**
 * Limits log lines about a full disk to one per minute: every request and batch fails for the same reason, and the log may be
 * on the same disk. `repeated` is the number of lines that were dropped since the last one.
 */
function createDiskFullLimit(nowMs: () => number) {
  let nextMs = -Infinity;
  let repeated = 0;
  return (about: object): object | undefined => {
    if (nowMs() < nextMs) {
      repeated += 1;
      return undefined;
    }
    nextMs = nowMs() + DISK_FULL_EVERY_MS;
    const line = repeated === 0 ? about : { ...about, repeated };
    repeated = 0;
    return line;
  };
}

/** Creates a log with one JSON line per entry, on standard output by default; `level` is pino's, `silent` disables it. */
export function createLog(level: string, to?: DestinationStream, nowMs = () => performance.now()): Log {
  const limitDiskFull = createDiskFullLimit(nowMs);
  const options: LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { err: errorForLog },
    hooks: {
      logMethod([about, ...rest], method) {
        const isLimited = typeof about === 'object' && about !== null && isDiskFull((about as { err?: unknown }).err);
        const line = isLimited ? limitDiskFull(about) : about;
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
