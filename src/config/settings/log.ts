/** The log. */
import { choice } from './kind.ts';

export const LOG = {
  LOG_LEVEL: choice(
    '`info`, embedded: `warn`',
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    'minimum level of log lines: see [below](#the-log)',
  ),
};
