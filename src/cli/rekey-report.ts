/** Reports the result of `halcyon rekey` and the next step. */
import { EXIT, UserError } from './explain.ts';
import type { Rekeyed } from './reseal-all.ts';
import type { Terminal } from './terminal.ts';

type RekeyReport = Rekeyed & {
  seconds: number;
  signal: string | undefined;
  /** The file of the previous key, if the key is in a file. */
  oldKeyFile: string | undefined;
  /** The number of configured keys. */
  keys: number;
  isJson: boolean;
};

/** The limit of names in the text output; the JSON output has all of them. */
const UNOPENED_SHOWN = 100;

const whole = new Intl.NumberFormat('en');
const rows = (count: number, one: string): string => `${whole.format(count)} ${one}${count === 1 ? '' : 's'}`;

function nextStep({ keys, oldKeyFile }: RekeyReport): string {
  if (oldKeyFile !== undefined) {
    return `Start Halcyon again. The previous key is kept in ${oldKeyFile} for a day, for requests repeated with an idempotency key.`;
  }
  if (keys === 1) return 'To change the key, set HALCYON_SECRET_KEY_OTHER to the new one first: halcyon rekey --help';
  return (
    'Next: a day after the last process was restarted with this HALCYON_SECRET_KEY, restart all of them without ' +
    'HALCYON_SECRET_KEY_OTHER. Until then it is needed for requests repeated with an idempotency key.'
  );
}

const RUN_AGAIN = 'run the same command again to continue';

/** Returns the reason why the run is incomplete, with a remedy; undefined if it is complete. */
function failureOf({ end, signal, late, unopened }: RekeyReport): UserError | undefined {
  if (end === 'stopped')
    return new UserError(`${signal}: not all secrets are resealed; ${RUN_AGAIN}`, EXIT.interrupted);
  if (late > 0) {
    return new UserError(
      `Another process sealed ${rows(late, 'secret')} with the other key meanwhile: restart every process ` +
        'with the same HALCYON_SECRET_KEY as here, then run the same command again',
      EXIT.incomplete,
    );
  }
  if (end === 'incomplete')
    return new UserError(`Some rows stayed locked by other transactions; ${RUN_AGAIN}`, EXIT.incomplete);
  if (unopened.length === 0) return undefined;
  return new UserError(
    `${rows(unopened.length, 'secret')} cannot be opened with any of the keys and stay unchanged. Give these webhooks a ` +
      'new encryption_key and their url and headers again, or set HALCYON_SECRET_KEY_OTHER to their key; a stored response is deleted after a day',
    EXIT.incomplete,
  );
}

/** Prints the result; throws a `UserError` unless everything is sealed with the key. */
export function reportRekey(terminal: Terminal, report: RekeyReport): void {
  const { counts, unopened, isAdopted, oldKeyFile, isJson } = report;
  const failure = failureOf(report);
  const [webhooks = 0, answers = 0] = [counts.get('webhooks'), counts.get('answers')];
  const seconds = Number(report.seconds.toFixed(3));
  if (isJson) {
    const files = oldKeyFile === undefined ? {} : { old_key_file: oldKeyFile };
    const result = { webhooks, answers, unopened, seconds, ...files };
    terminal.print(JSON.stringify({ complete: failure === undefined, adopted: isAdopted, ...result }));
  } else {
    for (const name of unopened.slice(0, UNOPENED_SHOWN)) terminal.warn(`${name} cannot be opened`);
    const resealed = `${rows(webhooks, 'webhook')} and ${rows(answers, 'stored response')}`;
    terminal.print(`${resealed} resealed in ${seconds.toFixed(1)} s`);
    if (isAdopted) terminal.print(nextStep(report));
  }
  if (failure !== undefined) throw failure;
}
