import { pino, stdSerializers, type DestinationStream, type Logger } from 'pino';

export type Log = Logger;

/** What PostgreSQL names of itself and of our schema. Its DETAIL, HINT and CONTEXT quote rows and parameters. */
const NAMES = ['code', 'severity', 'routine', 'schema_name', 'table_name', 'column_name', 'constraint_name'] as const;

/** The message of a data exception (SQLSTATE class 22) quotes the value that it is about. */
const isQuoting = (code: unknown): boolean => String(code).startsWith('22');

/** An error of PostgreSQL without what it was given, which somebody published or typed; any other as it is. */
const errorForLog = (error: Error): object => {
  if (error.name !== 'PostgresError') return stdSerializers.err(error);
  const { message, stack = '' } = error;
  const members = error as Partial<Record<(typeof NAMES)[number], string>>;
  const at = stack.indexOf(message);
  return {
    type: error.name,
    message: isQuoting(members.code) ? 'left out: it quotes a value' : message,
    ...Object.fromEntries(NAMES.map((name) => [name, members[name]])),
    stack: at === -1 ? undefined : stack.slice(at + message.length).trimStart(),
  };
};

/** One JSON line an entry, on standard output where no other place is named; `level` is pino's, `silent` switches it off. */
export const createLog = (level: string, to?: DestinationStream): Log => {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { err: errorForLog },
    // A second lock on the door: the code does not log these, and if it ever does, they do not come out.
    redact: {
      paths: ['*.authorization', '*.cookie', '*.password', '*.client_secret', '*.encryption_key'],
      censor: '***',
    },
  };
  return to === undefined ? pino(options) : pino(options, to);
};
