/** `halcyon rekey`: reseals all secrets with HALCYON_SECRET_KEY while all processes keep running. */
import { setTimeout as delay } from 'node:timers/promises';
import { findRunning } from '#db/embedded.ts';
import type { Keys } from '#core/keys.ts';
import { createLog } from '#core/log.ts';
import { readConfig, type Config } from '#config/config.ts';
import { CliCommand } from './command.ts';
import { UserError, EXIT } from './explain.ts';
import { openInstallation, type Installation } from './installation.ts';
import { openNextKey, promoteNextKey } from './key-file.ts';
import { countOf } from './doctor/check.ts';
import type { Terminal } from './terminal.ts';
import type { Sql } from '#db/pool.ts';
import { reseal, type Resealed, createSealer, keyIdOf, adoptSealingKey } from '#db/seal.ts';
import { createAnswerVault } from '#http/idempotency.ts';
import { createAppVault } from '#identity/accounts/factors/second-factor.ts';
import { createAppKeyVault } from '#webhooks/app-access/declaration.ts';
import { createKeyVault, createVersionVault } from '#webhooks/webhook-vault.ts';
import { createAddressVault } from '#shards/map-sql.ts';

// Reseals all secrets of an installation with one key.

/** `isAdopted`: the key is now that of all databases, so no process without it starts. */
type Rekeyed = Resealed & { isAdopted: boolean };

type ResealAllOptions = {
  /** The other databases of the map of shards. */
  others?: readonly Sql[];
  /** The pause before rows that were locked or changed are looked for again. */
  pause: () => Promise<void>;
  isStopped: () => boolean;
  onProgress: (done: number, total: number) => void;
};

const sum = (counts: Iterable<number>): number => [...counts].reduce((all, count) => all + count, 0);

/** Adds up two passes; the second pass finds only rows that were sealed after the end of the first. */
const combine = (first: Resealed, second: Resealed): Resealed => ({
  ...second,
  counts: new Map([...first.counts].map(([name, count]) => [name, count + (second.counts.get(name) ?? 0)])),
  late: first.late + sum(second.counts.values()),
});

/**
 * Reseals with the first key all secrets under other keys. Then the first key becomes the key of all databases, and a second pass finds
 * secrets that were sealed in between.
 */
export async function resealAll(
  sql: Sql,
  keys: Keys,
  { onProgress, others = [], ...rest }: ResealAllOptions,
): Promise<Rekeyed> {
  const [key] = keys;
  const databases = [sql, ...others];
  const vaults = [
    ...databases.flatMap((one) => [
      createKeyVault(one),
      createVersionVault(one),
      createAppKeyVault(one),
      createAnswerVault(one),
    ]),
    createAppVault(sql),
    createAddressVault(sql),
  ];
  const total = sum(await Promise.all(vaults.map((vault) => vault.count(keyIdOf(key)))));
  let done = 0;
  const onPage = (rows: number): void => {
    done += rows;
    onProgress(done, Math.max(done, total));
  };
  const options = { key, sealer: createSealer(...keys), onPage, ...rest };
  const first = await reseal(vaults, options);
  if (first.end !== 'done' || first.late > 0) return { ...first, isAdopted: false };
  for (const one of databases) await adoptSealingKey(one, key);
  return { ...combine(first, await reseal(vaults, options)), isAdopted: true };
}

// The command.

type RekeyReport = Rekeyed & {
  seconds: number;
  signal: string | undefined;
  /** The file of the previous key, if the key is in a file. */
  oldKeyFile: string | undefined;
  /** The number of configured keys. */
  keys: number;
};

/** The limit of names in the text output; the JSON output has all of them. */
const UNOPENED_SHOWN = 100;

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
      `Another process sealed ${countOf(late, 'secret')} with the other key meanwhile: restart every process ` +
        'with the same HALCYON_SECRET_KEY as here, then run the same command again',
      EXIT.incomplete,
    );
  }
  if (end === 'incomplete')
    return new UserError(`Some rows stayed locked by other transactions; ${RUN_AGAIN}`, EXIT.incomplete);
  if (unopened.length === 0) return undefined;
  return new UserError(
    `${countOf(unopened.length, 'secret')} cannot be opened with any of the keys and stay unchanged. Give these webhooks a ` +
      'new encryption_key and their url and headers again, or set HALCYON_SECRET_KEY_OTHER to their key; a stored response is deleted after a day',
    EXIT.incomplete,
  );
}

/** Prints the result; throws a `UserError` unless everything is sealed with the key. */
function reportRekey(terminal: Terminal, report: RekeyReport): void {
  const { counts, unopened, isAdopted, oldKeyFile } = report;
  const failure = failureOf(report);
  const [webhooks = 0, answers = 0] = [counts.get('webhooks'), counts.get('answers')];
  const seconds = Number(report.seconds.toFixed(3));
  if (terminal.isJson === true) {
    const result = { webhooks, answers, unopened, seconds, old_key_file: oldKeyFile };
    terminal.print(JSON.stringify({ complete: failure === undefined, adopted: isAdopted, ...result }));
  } else {
    for (const name of unopened.slice(0, UNOPENED_SHOWN)) terminal.warn(`${name} cannot be opened`);
    const resealed = `${countOf(webhooks, 'webhook')} and ${countOf(answers, 'stored response')}`;
    terminal.print(`${resealed} resealed in ${seconds.toFixed(1)} s`);
    if (isAdopted) terminal.print(nextStep(report));
  }
  if (failure !== undefined) throw failure;
}

/** The pause before rows that were locked or changed are looked for again. */
const PAUSE_MS = 200;
const PROGRESS_MS = 100;

function createProgress(terminal: Terminal) {
  let shownMs = Number.NEGATIVE_INFINITY;
  return (done: number, total: number): void => {
    const nowMs = performance.now();
    if (nowMs - shownMs < PROGRESS_MS) return;
    shownMs = nowMs;
    terminal.showProgress?.(`${done} of ${total} resealed`);
  };
}

/** Opens the installation for a change of the key file; throws if Halcyon runs, because it has a copy of the key in memory. */
async function openExclusively(config: Config): Promise<Installation> {
  const { dataDir } = config;
  if ((await findRunning(dataDir)) !== undefined) {
    throw new UserError(`Halcyon is running on ${dataDir} with the key to be changed: stop it, then run this again`);
  }
  return openInstallation(config, createLog(config.logLevel), { usesRunningServer: false });
}

async function rekey(terminal: Terminal): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  const isFile = config.secretKeys === undefined;
  await using installation = await (isFile
    ? openExclusively(config)
    : openInstallation(config, createLog(config.logLevel), { usesRunningServer: true, requiresAll: true }));
  const startedMs = performance.now();
  let signal: string | undefined;
  void terminal.untilStopSignal().then((name) => (signal = name));
  const keys: Keys = isFile ? [await openNextKey(config.dataDir), ...installation.secretKeys] : installation.secretKeys;
  const result = await resealAll(installation.sql, keys, {
    others: installation.databases.map(({ sql }) => sql),
    pause: () => delay(PAUSE_MS),
    isStopped: () => signal !== undefined,
    onProgress: createProgress(terminal),
  });
  const oldKeyFile = isFile && result.isAdopted ? await promoteNextKey(config.dataDir) : undefined;
  terminal.showProgress?.('');
  const seconds = (performance.now() - startedMs) / 1_000;
  reportRekey(terminal, { ...result, seconds, signal, oldKeyFile, keys: keys.length });
}

const HELP = `
To change the key without downtime (docs/operating.md, "Change the key"):
  1. restart all processes, one by one, with HALCYON_SECRET_KEY_OTHER set to the new key
  2. restart them all with HALCYON_SECRET_KEY set to the new key, and HALCYON_SECRET_KEY_OTHER to the old one
  3. run this command, with the same two
  4. a day later restart them without HALCYON_SECRET_KEY_OTHER
An interrupted run is continued by the next. With the embedded database and no HALCYON_SECRET_KEY, stop Halcyon and run
this command: it generates the new key.

Exit code: 0 if everything is sealed with the key, 1 if it could not start, 2 if it is incomplete (the message says what
to do), 130 if it was interrupted.

Examples:
  HALCYON_SECRET_KEY=$NEW HALCYON_SECRET_KEY_OTHER=$OLD halcyon rekey
  halcyon rekey --json`;

export function createRekeyCommand(terminal: Terminal): CliCommand {
  return new CliCommand('rekey')
    .description('reseal secrets at rest with the current HALCYON_SECRET_KEY')
    .addHelpText('after', HELP)
    .action(() => rekey(terminal));
}
