/** `halcyon rekey`: everything that is sealed with another key is sealed with HALCYON_SECRET_KEY, while everybody goes on. */
import { Command } from 'commander';
import { setTimeout as delay } from 'node:timers/promises';
import { findRunning } from '#db/embedded.ts';
import type { Keys } from '#core/keys.ts';
import { createLog } from '#core/log.ts';
import { readConfig, type Config } from '#config/config.ts';
import { UserError } from './explain.ts';
import { openInstallation, type Installation } from './installation.ts';
import { openNextKey, promoteNextKey } from './key-file.ts';
import { tellRekey } from './rekey-report.ts';
import { sealAnew } from './seal-anew.ts';
import type { Terminal } from './terminal.ts';

/** What is locked or changes is looked for again after so long. */
const PAUSE_MS = 200;
const PROGRESS_MS = 100;

const createProgress = (terminal: Terminal) => {
  let shownMs = Number.NEGATIVE_INFINITY;
  return (done: number, total: number): void => {
    const nowMs = performance.now();
    if (nowMs - shownMs < PROGRESS_MS) return;
    shownMs = nowMs;
    terminal.showProgress?.(`${done} of ${total} sealed anew`);
  };
};

/** Of a key in a file every process has its copy in memory, so none may run beside it. */
const openOwnInstallation = async (config: Config): Promise<Installation> => {
  const { dataDir } = config;
  if ((await findRunning(dataDir)) !== undefined) {
    throw new UserError(
      `Halcyon is running on ${dataDir}, with the key that is to be changed: stop it, then run this again`,
    );
  }
  return openInstallation(config, createLog(config.logLevel), { isGuest: false });
};

const rekey = async (terminal: Terminal, isJson: boolean): Promise<void> => {
  const config = readConfig(terminal.env, terminal.cwd);
  const isFile = config.secretKeys === undefined;
  const installation = await (isFile
    ? openOwnInstallation(config)
    : openInstallation(config, createLog(config.logLevel), { isGuest: true }));
  const startedMs = performance.now();
  let signal: string | undefined;
  void terminal.untilToldToStop().then((name) => (signal = name));
  try {
    const keys: Keys = isFile
      ? [await openNextKey(config.dataDir), ...installation.secretKeys]
      : installation.secretKeys;
    const done = await sealAnew(installation.sql, keys, {
      pause: () => delay(PAUSE_MS),
      isStopped: () => signal !== undefined,
      onProgress: createProgress(terminal),
    });
    const oldKeyFile = isFile && done.isAdopted ? await promoteNextKey(config.dataDir) : undefined;
    terminal.showProgress?.('');
    const seconds = (performance.now() - startedMs) / 1_000;
    tellRekey(terminal, { ...done, seconds, signal, oldKeyFile, keys: keys.length, isJson });
  } finally {
    await installation.close();
  }
};

const HELP = `
Change the key so, and nothing is lost or late meanwhile (docs/operating.md, "Change the key"):
  1. restart all processes, one by one, with HALCYON_SECRET_KEY_OTHER set to the new key
  2. restart them all with HALCYON_SECRET_KEY set to the new key, and HALCYON_SECRET_KEY_OTHER to the old one
  3. run this command, with the same two
  4. a day later restart them without HALCYON_SECRET_KEY_OTHER
A run that was broken off is gone on with by the next. With the embedded database and no HALCYON_SECRET_KEY, stop Halcyon
and run this: it makes the new key by itself.

Ends with 0 when everything is sealed with the key, 1 when it could not begin, 2 when something is left: it says what and
what to do, 130 when it was told to stop.

Examples:
  HALCYON_SECRET_KEY=$NEW HALCYON_SECRET_KEY_OTHER=$OLD halcyon rekey
  halcyon rekey --json`;

export const createRekeyCommand = (terminal: Terminal): Command =>
  new Command('rekey')
    .description('seal secrets at rest with HALCYON_SECRET_KEY that are sealed with another key')
    .option('--json', 'print what became of it as one JSON object')
    .addHelpText('after', HELP)
    .action((options: { json?: true }) => rekey(terminal, options.json === true));
