import { pino, type Logger } from 'pino';

export type Log = Logger;

/** One JSON line an entry on standard output; `level` is pino's, `silent` switches it off. */
export const createLog = (level: string): Log =>
  pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    // A second lock on the door: the code does not log these, and if it ever does, they do not come out.
    redact: {
      paths: ['*.authorization', '*.cookie', '*.password', '*.client_secret', '*.encryption_key'],
      censor: '***',
    },
  });
