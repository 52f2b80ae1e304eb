/** `halcyon backup`: writes the whole database to one file, or several databases to a folder. */
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { findRunning, findServer } from '#db/embedded.ts';
import { openPool, type DatabaseAddress } from '#db/pool.ts';
import { checkServer } from '#db/usable.ts';
import { readConfig, type Config } from '#config/config.ts';
import { examples } from '../command.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { dump, runProgram } from './dump.ts';
import { MANIFEST, backupSet, findMap, writeAtomically } from './set.ts';

// Copies the stopped embedded cluster with tar, because the npm binaries contain neither pg_dump nor pg_basebackup.

/** Copies the cluster to a tar file with owners and modes, without the secret key. */
async function copyCluster(terminal: Terminal, dataDir: string, file: string): Promise<void> {
  const server = await findServer(dataDir);
  if (server !== undefined)
    throw new UserError(
      `PostgreSQL (process ${server}) runs on ${dataDir} and accepts no connections, so it can be neither dumped nor copied: stop Halcyon, or wait until it responds, then run this again`,
    );
  await runProgram(terminal, {
    path: 'tar',
    // `-h` follows links: `postgres` is a link if the user of the database cannot reach this folder.
    args: '--create --numeric-owner -h --exclude=postmaster.pid --exclude=server.log* --exclude=.s.PGSQL.*'
      .split(' ')
      .concat(`--file=${file}`, `--directory=${dataDir}`, 'postgres', 'postgres-password'),
    env: terminal.env,
    file,
  });
  if ((await findServer(dataDir)) !== undefined)
    throw new UserError(`Halcyon was started on ${dataDir} meanwhile, so the copy is not consistent: run this again`);
}

const MIB = 1024 ** 2;

type Source = { kind: 'dump'; address: DatabaseAddress; major: number } | { kind: 'copy' };

async function majorOf(address: DatabaseAddress): Promise<number> {
  const sql = openPool(address, { connections: 1, applicationName: 'halcyon', isShared: true });
  try {
    return Math.floor((await checkServer(sql)) / 10_000);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function sourceOf({ database, dataDir }: Config): Promise<Source> {
  // pg_dump sets session variables, which a transaction pooler would lose.
  const url = database.directUrl ?? database.url;
  const address = url === undefined ? await findRunning(dataDir) : ({ kind: 'url', url } as const);
  if (address !== undefined) return { kind: 'dump', address, major: await majorOf(address) };
  const found = await stat(join(dataDir, 'postgres', 'data')).catch(() => undefined);
  if (found === undefined)
    throw new UserError(`There is no database in ${dataDir}: set HALCYON_DATA to its folder, or DATABASE_URL`);
  return { kind: 'copy' };
}

/** Returns the time without colons, in an order in which names sort by time. */
const stampOf = (now: Date): string => now.toISOString().replace(/\..*/, '').replaceAll(/[-:]/g, '').replace('T', '-');

const describeFormat = (source: Source): string =>
  source.kind === 'dump' ? 'a dump for pg_restore' : 'a copy of the stopped database, for tar';

/** Backs up the databases of a map of shards. */
async function backupAll(
  terminal: Terminal,
  to: string | undefined,
  set: Omit<Parameters<typeof backupSet>[1], 'folder'>,
) {
  const folder = resolve(terminal.cwd, to ?? `halcyon-${stampOf(new Date())}`);
  const startedMs = performance.now();
  const { databases } = await backupSet(terminal, { ...set, folder });
  const seconds = Number(((performance.now() - startedMs) / 1_000).toFixed(3));
  const bytes = databases.reduce((sum, one) => sum + one.bytes, 0);
  if (terminal.isJson === true) {
    const manifest = join(folder, MANIFEST);
    terminal.print(
      JSON.stringify({ folder, manifest, kind: 'dumps', bytes, seconds, secret_key: 'HALCYON_SECRET_KEY' }),
    );
    return;
  }
  for (const { file, name, shards } of databases)
    terminal.print(`${join(folder, file)}: ${name}, shards ${shards || 'none'}`);
  terminal.print(
    `${databases.length} databases, ${(bytes / MIB).toFixed(1)} MiB in ${seconds.toFixed(1)} s, and ${MANIFEST}, which lists them`,
  );
  printAdvice(terminal, 'HALCYON_SECRET_KEY');
}

function printAdvice(terminal: Terminal, key: string): void {
  terminal.print(
    `Store ${key} separately: the file does not contain it, and without it the secrets in the file cannot be decrypted.`,
  );
  terminal.print('How to restore it: docs/operating.md, "Back up and restore"');
}

async function backup(terminal: Terminal, to: string | undefined): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  const source = await sourceOf(config);
  const map = source.kind === 'dump' ? await findMap(source.address) : undefined;
  if (map !== undefined && source.kind === 'dump')
    return backupAll(terminal, to, { config, map, home: source.address });
  const ending = source.kind === 'dump' ? 'dump' : 'tar';
  const file = resolve(terminal.cwd, to ?? `halcyon-${stampOf(new Date())}.${ending}`);
  const startedMs = performance.now();
  const bytes = await writeAtomically(file, (part) =>
    source.kind === 'dump' ? dump(terminal, source, part) : copyCluster(terminal, config.dataDir, part),
  );
  const seconds = Number(((performance.now() - startedMs) / 1_000).toFixed(3));
  const key = config.secretKeys === undefined ? join(config.dataDir, 'secret-key') : 'HALCYON_SECRET_KEY';
  if (terminal.isJson === true) {
    terminal.print(JSON.stringify({ file, kind: source.kind, bytes, seconds, secret_key: key }));
    return;
  }
  terminal.print(`${file}: ${(bytes / MIB).toFixed(1)} MiB in ${seconds.toFixed(1)} s, ${describeFormat(source)}`);
  printAdvice(terminal, key);
}

const HELP = `
With DATABASE_URL, or while Halcyon is running, it is a consistent dump by the pg_dump of this machine, which must be as new as
the server. Of a stopped embedded database it is a copy of its folder. The file is readable only by you, appears only when it
is complete, and never replaces an existing file.

With several databases (SHARD_DATABASES) it is a folder: a dump of each database, of the same moment, and manifest.json, which
lists them with their shards, sizes and SHA-256.`;

export function createBackupCommand(terminal: Terminal): Command {
  return new Command('backup')
    .description('write the whole database to one file')
    .option('--to <file>', 'the file or folder; default: a name with the time, in the current folder')
    .addHelpText('after', HELP)
    .addHelpText('after', examples('halcyon backup', 'halcyon backup --to /var/backups/halcyon.dump --json'))
    .action((options: { to?: string }) => backup(terminal, options.to));
}
