/** Logging. */
import { choice } from './kind.ts';

export const LOG = {
  LOG_LEVEL: choice(
    '`info`, embedded: `warn`',
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    'from which level on lines are written: see [below](#the-log)',
  ),
};
