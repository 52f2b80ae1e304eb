/** What a person or a program is told of a change of the key, and what is to do next. */
import { EXIT, UserError } from './explain.ts';
import type { Rekeyed } from './seal-anew.ts';
import type { Terminal } from './terminal.ts';

type Told = Rekeyed & {
  seconds: number;
  signal: string | undefined;
  /** Where the key before is kept, when it stood in a file. */
  oldKeyFile: string | undefined;
  /** How many there are to open with. */
  keys: number;
  isJson: boolean;
};

/** Of many that do not open these tell what is wrong; a program is told all of them. */
const UNOPENED_SHOWN = 100;

const whole = new Intl.NumberFormat('en');
const rows = (count: number, one: string): string => `${whole.format(count)} ${one}${count === 1 ? '' : 's'}`;

const nextStep = ({ keys, oldKeyFile }: Told): string => {
  if (oldKeyFile !== undefined) {
    return `Start Halcyon again. The key before is kept in ${oldKeyFile} for a day, for what repeats under idempotency keys.`;
  }
  if (keys === 1) return 'To change the key, set HALCYON_SECRET_KEY_OTHER to the new one first: halcyon rekey --help';
  return (
    'Next: when the last process has had this HALCYON_SECRET_KEY for a day, restart all of them without ' +
    'HALCYON_SECRET_KEY_OTHER. Until then what repeats under an idempotency key is known by it.'
  );
};

const AGAIN = 'what is done is done; run the same command again to go on';

/** Why it is not complete, with what to do; undefined where it is. */
const endOf = ({ end, signal, late, unopened }: Told): UserError | undefined => {
  if (end === 'stopped') return new UserError(`${signal}: not everything is sealed anew; ${AGAIN}`, EXIT.interrupted);
  if (late > 0) {
    return new UserError(
      `${rows(late, 'secret')} came meanwhile that another process sealed with the other key: restart every process ` +
        'with the same HALCYON_SECRET_KEY as here, then run the same command again',
      EXIT.incomplete,
    );
  }
  if (end === 'incomplete')
    return new UserError(`Some rows are held by transactions that do not end; ${AGAIN}`, EXIT.incomplete);
  if (unopened.length === 0) return undefined;
  return new UserError(
    `${rows(unopened.length, 'secret')} cannot be opened with any key given, and stay as they are. Give these webhooks a ` +
      'new encryption_key, or bring the key back as HALCYON_SECRET_KEY_OTHER; a kept answer goes after a day',
    EXIT.incomplete,
  );
};

/** Throws a `UserError` unless everything is sealed with the key. */
export const tellRekey = (terminal: Terminal, told: Told): void => {
  const { counts, unopened, isAdopted, oldKeyFile, isJson } = told;
  const end = endOf(told);
  const [webhooks = 0, answers = 0] = [counts.get('webhooks'), counts.get('answers')];
  const seconds = Number(told.seconds.toFixed(3));
  if (isJson) {
    const files = oldKeyFile === undefined ? {} : { old_key_file: oldKeyFile };
    const done = { webhooks, answers, unopened, seconds, ...files };
    terminal.print(JSON.stringify({ complete: end === undefined, adopted: isAdopted, ...done }));
  } else {
    for (const name of unopened.slice(0, UNOPENED_SHOWN)) terminal.warn(`${name} cannot be opened`);
    const done = `${rows(webhooks, 'webhook')} and ${rows(answers, 'kept answer')}`;
    terminal.print(`${done} sealed anew in ${seconds.toFixed(1)} s`);
    if (isAdopted) terminal.print(nextStep(told));
  }
  if (end !== undefined) throw end;
};
