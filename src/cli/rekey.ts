/** `halcyon rekey`: reseals all secrets with HALCYON_SECRET_KEY while all processes keep running. */
import { Command } from 'commander';
import { setTimeout as delay } from 'node:timers/promises';
import { findRunning } from '#db/embedded.ts';
import type { Keys } from '#core/keys.ts';
import { createLog } from '#core/log.ts';
import { readConfig, type Config } from '#config/config.ts';
import { UserError } from './explain.ts';
import { openInstallation, type Installation } from './installation.ts';
import { openNextKey, promoteNextKey } from './key-file.ts';
import { reportRekey } from './rekey-report.ts';
import { resealAll } from './reseal-all.ts';
import type { Terminal } from './terminal.ts';

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

async function rekey(terminal: Terminal, isJson: boolean): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  const isFile = config.secretKeys === undefined;
  const installation = await (isFile
    ? openExclusively(config)
    : openInstallation(config, createLog(config.logLevel), { usesRunningServer: true, requiresAll: true }));
  const startedMs = performance.now();
  let signal: string | undefined;
  void terminal.untilStopSignal().then((name) => (signal = name));
  try {
    const keys: Keys = isFile
      ? [await openNextKey(config.dataDir), ...installation.secretKeys]
      : installation.secretKeys;
    const result = await resealAll(installation.sql, keys, {
      others: installation.databases.map(({ sql }) => sql),
      pause: () => delay(PAUSE_MS),
      isStopped: () => signal !== undefined,
      onProgress: createProgress(terminal),
    });
    const oldKeyFile = isFile && result.isAdopted ? await promoteNextKey(config.dataDir) : undefined;
    terminal.showProgress?.('');
    const seconds = (performance.now() - startedMs) / 1_000;
    reportRekey(terminal, { ...result, seconds, signal, oldKeyFile, keys: keys.length, isJson });
  } finally {
    await installation.close();
  }
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

export function createRekeyCommand(terminal: Terminal): Command {
  return new Command('rekey')
    .description('reseal secrets at rest with the current HALCYON_SECRET_KEY')
    .option('--json', 'print the result as one JSON object')
    .addHelpText('after', HELP)
    .action((options: { json?: true }) => rekey(terminal, options.json === true));
}
