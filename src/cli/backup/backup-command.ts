/** `halcyon backup`: writes the whole database to one file, or several databases to a folder. */
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { findRunning, findServer } from '#db/embedded.ts';
import { openPool, type DatabaseAddress } from '#db/pool.ts';
import { checkServer, hasTable } from '#db/usable.ts';
import { readMap } from '#shards/map-sql.ts';
import type { ShardMap } from '#shards/map.ts';
import { readConfig, type Config } from '#config/config.ts';
import { examples, printResult } from '../command.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { dump, runProgram } from './dump.ts';
import { backupSet, MANIFEST, writeAtomically, type SetOptions } from './set.ts';

/** Copies the stopped cluster to a tar file with owners and modes, without the secret key. The npm binaries contain no pg_dump. */
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

/** `map`: undefined if the database has none, and so all shards. */
type Dumped = { kind: 'dump'; address: DatabaseAddress; major: number; map: ShardMap | undefined };

async function readDumped(address: DatabaseAddress): Promise<Dumped> {
  const sql = openPool(address, { connections: 1, applicationName: 'halcyon', isShared: true });
  try {
    const major = Math.floor((await checkServer(sql)) / 10_000);
    // A back-up may be made before an upgrade.
    const map = (await hasTable(sql, 'shard_map')) ? await readMap(sql) : undefined;
    return { kind: 'dump', address, major, map: map?.version === 0 ? undefined : map };
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function sourceOf({ database, dataDir }: Config): Promise<Dumped | { kind: 'copy' }> {
  // pg_dump sets session variables, which a transaction pooler would lose.
  const url = database.directUrl ?? database.url;
  const address = url === undefined ? await findRunning(dataDir) : ({ kind: 'url', url } as const);
  if (address !== undefined) return readDumped(address);
  const found = await stat(join(dataDir, 'postgres', 'data')).catch(() => undefined);
  if (found === undefined)
    throw new UserError(`There is no database in ${dataDir}: set HALCYON_DATA to its folder, or DATABASE_URL`);
  return { kind: 'copy' };
}

/** What was written. `key`: where the secret key is. `describe` gets its size and how long it took. */
type Written = { at: object; kind: string; bytes: number; key: string; describe: (size: string) => string[] };

/** Backs up the databases of a map of shards. */
async function writeSet(terminal: Terminal, folder: string, set: Omit<SetOptions, 'folder'>): Promise<Written> {
  const { databases } = await backupSet(terminal, { ...set, folder });
  return {
    at: { folder, manifest: join(folder, MANIFEST) },
    kind: 'dumps',
    bytes: databases.reduce((sum, one) => sum + one.bytes, 0),
    key: 'HALCYON_SECRET_KEY',
    describe: (size) => [
      ...databases.map(({ file, name, shards }) => `${join(folder, file)}: ${name}, shards ${shards || 'none'}`),
      `${databases.length} databases, ${size}, and ${MANIFEST}, which lists them`,
    ],
  };
}

async function writeOne(
  terminal: Terminal,
  file: string,
  { config, source }: { config: Config; source: Awaited<ReturnType<typeof sourceOf>> },
): Promise<Written> {
  const { secretKeys, dataDir } = config;
  const [write, format] =
    source.kind === 'dump'
      ? [(part: string) => dump(terminal, source, part), 'a dump for pg_restore']
      : [(part: string) => copyCluster(terminal, dataDir, part), 'a copy of the stopped database, for tar'];
  const bytes = await writeAtomically(file, write);
  const key = secretKeys === undefined ? join(dataDir, 'secret-key') : 'HALCYON_SECRET_KEY';
  return { at: { file }, kind: source.kind, bytes, key, describe: (size) => [`${file}: ${size}, ${format}`] };
}

const MIB = 1024 ** 2;
/** Returns the time without colons, in an order in which names sort by time. */
const stampOf = (now: Date): string => now.toISOString().replace(/\..*/, '').replaceAll(/[-:]/g, '').replace('T', '-');

async function backup(terminal: Terminal, to: string | undefined): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  const source = await sourceOf(config);
  const pathOf = (ending: string): string => resolve(terminal.cwd, to ?? `halcyon-${stampOf(new Date())}${ending}`);
  const startedMs = performance.now();
  const { at, kind, bytes, key, describe } =
    source.kind === 'dump' && source.map !== undefined
      ? await writeSet(terminal, pathOf(''), { config, map: source.map, home: source.address })
      : await writeOne(terminal, pathOf(source.kind === 'dump' ? '.dump' : '.tar'), { config, source });
  const seconds = Number(((performance.now() - startedMs) / 1_000).toFixed(3));
  if (terminal.isJson === true) return printResult(terminal, { ...at, kind, bytes, seconds, secret_key: key });
  for (const line of describe(`${(bytes / MIB).toFixed(1)} MiB in ${seconds.toFixed(1)} s`)) terminal.print(line);
  terminal.print(
    `Store ${key} separately: the file does not contain it, and without it the secrets in the file cannot be decrypted.`,
  );
  terminal.print('How to restore it: docs/operating.md, "Back up and restore"');
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
