/** `halcyon backup`: writes the whole database to one file, or several databases to a folder. */
import { stat, link, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve, dirname } from 'node:path';
import { findRunning, findServer } from '#db/embedded.ts';
import { openPool, type DatabaseAddress, type Queryable, type Sql } from '#db/pool.ts';
import { checkServer, hasTable } from '#db/usable.ts';
import { withName } from '#shards/adopt.ts';
import { readMap, listLeasedShards, readIdentity, openAddress } from '#shards/map-sql.ts';
import { type ShardMap, formatShards, HOME, shardsOf, type MapDatabase } from '#shards/map.ts';
import { readConfig, type Config } from '#config/config.ts';
import { printResult, CliCommand } from '../command.ts';
import { UserError } from '../explain.ts';
import { flush } from '../key-file.ts';
import type { Terminal } from '../terminal.ts';
import { dump, runProgram } from './dump.ts';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createSealer } from '#db/seal.ts';
import { listMoves } from '#shards/move/move-sql.ts';
import { endSnapshot, exportSnapshot } from './set-sql.ts';

// Backs up the databases of a map of shards: one dump each, and a manifest.

const MANIFEST = 'manifest.json';

type DumpedDatabase = {
  id: number;
  name: string;
  identity: string;
  shards: string;
  file: string;
  bytes: number;
  sha256: string;
};
/** `map_version`: the version of the map at the time of the snapshots. */
export type Manifest = { date: string; map_version: number; databases: DumpedDatabase[] };

type Source = MapDatabase & { from: DatabaseAddress };

function sourcesOf(map: ShardMap, home: DatabaseAddress, { secretKeys }: Config): Source[] {
  return map.databases.map((database) => {
    if (database.address !== null && secretKeys === undefined)
      throw new UserError('Set HALCYON_SECRET_KEY: it opens the addresses of the databases');
    const url = secretKeys && openAddress(createSealer(...secretKeys), database);
    return { ...database, from: url === undefined ? home : { kind: 'url', url } };
  });
}

type Snapshot = Source & { on: Queryable; major: number; snapshot: string };

/** Opens a connection; the name of the database is added to an error. */
async function connect(pool: Sql, { name }: Source) {
  const version = await checkServer(pool).catch((error: unknown) => {
    throw withName(name, error);
  });
  return { on: await pool.reserve(), major: Math.floor(version / 10_000) };
}

/** Exports a snapshot of each database, the home database first, and calls `use` while they exist. */
async function withSnapshots<T>(
  sources: readonly Source[],
  use: (snapshots: readonly Snapshot[]) => Promise<T>,
): Promise<T> {
  await using ends = new AsyncDisposableStack();
  const opened = await Promise.all(
    sources.map(async (source) => {
      const pool = openPool(source.from, { connections: 1, applicationName: 'halcyon' });
      ends.defer(() => pool.end({ timeout: 0 }));
      return { ...source, ...(await connect(pool, source)) };
    }),
  );
  const snapshots: Snapshot[] = [];
  for (const one of opened) {
    snapshots.push({ ...one, snapshot: await exportSnapshot(one.on) });
    ends.defer(() => endSnapshot(one.on).catch(() => {}));
  }
  await requireComplete(snapshots);
  return await use(snapshots);
}

/** Throws a `UserError` if a move is under way, or unless the snapshots have exactly one lease of each shard. */
async function requireComplete(snapshots: readonly Snapshot[]): Promise<void> {
  const [home] = snapshots;
  if (home === undefined) return;
  const map = await readMap(home.on);
  // A restored map may have the production address of the move's target, and undoing the move there would delete rows.
  if ((await listMoves(home.on)).some(({ dateEnded }) => dateEnded === null))
    throw new UserError('Shards are being moved: run this again when halcyon shards move has ended');
  for (const { id, name, identity, on } of snapshots) {
    if ((await readIdentity(on)).identity !== identity)
      throw new UserError(`${name} is another database than that of the map of shards: run halcyon doctor`);
    const [leased, owned] = [formatShards(await listLeasedShards(on)), formatShards(shardsOf(map, id))];
    if (leased !== owned)
      throw new UserError(
        `${name} delivers the shards ${leased || 'none'}, but owns ${owned || 'none'}: run this again when halcyon shards move has ended, or run halcyon doctor`,
      );
  }
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}

/** What was written. `key`: where the secret key is. `describe` gets its size and how long it took. */
type Written = { at: object; kind: string; bytes: number; key: string; describe: (size: string) => string[] };

/** Writes the dumps of the databases of a map and the manifest into a new folder, which is removed if one fails. */
async function writeSet(
  terminal: Terminal,
  folder: string,
  { config, map, home }: { config: Config; map: ShardMap; home: DatabaseAddress },
): Promise<Written> {
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') throw new UserError(`${folder} already exists: choose another folder with --to`);
    throw new UserError(`${folder} cannot be created (${error.code}): choose another folder with --to`);
  });
  try {
    return await withSnapshots(sourcesOf(map, home, config), async (snapshots) => {
      const manifest: Manifest = { date: new Date().toISOString(), map_version: map.version, databases: [] };
      for (const { id, name, identity, from: address, major, snapshot } of snapshots) {
        const file = id === HOME ? 'home.dump' : `database-${id}.dump`;
        const path = join(folder, file);
        const bytes = await writeAtomically(path, (part) => dump(terminal, { address, major, snapshot }, part));
        const shards = formatShards(shardsOf(map, id));
        manifest.databases.push({ id, name, identity, shards, file, bytes, sha256: await hashOf(path) });
      }
      await writeAtomically(join(folder, MANIFEST), (part) =>
        writeFile(part, `${JSON.stringify(manifest, null, 2)}\n`),
      );
      const { databases } = manifest;
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
    });
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

const alreadyExists = (path: string): UserError =>
  new UserError(`${path} already exists: choose another file with --to`);

/**
 * Renames without replacing an existing file, which only a hard link guarantees. File systems without hard links (exFAT, some
 * shares) get a check and a rename, which is better than to lose a back-up that took an hour.
 */
async function renameNew(part: string, path: string): Promise<void> {
  try {
    await link(part, path);
  } catch {
    if (existsSync(path)) throw alreadyExists(path);
    return rename(part, path);
  }
  return rm(part);
}

/**
 * Calls `write` with a temporary path next to `path` (mode 0600), renames the complete and flushed file, and returns its size in
 * bytes. Never replaces an existing file, which may be the last good back-up. A failure removes the temporary file, a kill leaves
 * a `.part`; its name is random, so that concurrent runs do not write to the same file.
 */
export async function writeAtomically(path: string, write: (part: string) => Promise<void>): Promise<number> {
  if (existsSync(path)) throw alreadyExists(path);
  const part = `${path}.${randomBytes(4).toString('hex')}.part`;
  await writeFile(part, '', { flag: 'wx', mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    throw new UserError(`${path} cannot be written (${error.code}): choose a file in a writable folder with --to`);
  });
  try {
    await write(part);
    await flush(part);
    await renameNew(part, path);
    await flush(dirname(path));
    return (await stat(path)).size;
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

// The command.

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
  await using sql = openPool(address, { connections: 1, applicationName: 'halcyon', isShared: true });
  const major = Math.floor((await checkServer(sql)) / 10_000);
  // A back-up may be made before an upgrade.
  const map = (await hasTable(sql, 'shard_map')) ? await readMap(sql) : undefined;
  return { kind: 'dump', address, major, map: map?.version === 0 ? undefined : map };
}

async function sourceOf({ database, dataDir }: Config): Promise<Dumped | { kind: 'copy' }> {
  // pg_dump sets session variables, which a transaction pooler would lose.
  const url = database.directUrl ?? database.url;
  const address = url === undefined ? await findRunning(dataDir) : ({ kind: 'url', url } as const);
  if (address !== undefined) return readDumped(address);
  if (!existsSync(join(dataDir, 'postgres', 'data')))
    throw new UserError(`There is no database in ${dataDir}: set HALCYON_DATA to its folder, or DATABASE_URL`);
  return { kind: 'copy' };
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
  printResult(terminal, { ...at, kind, bytes, seconds, secret_key: key }, [
    ...describe(`${(bytes / MIB).toFixed(1)} MiB in ${seconds.toFixed(1)} s`),
    `Store ${key} separately: the file does not contain it, and without it the secrets in the file cannot be decrypted.`,
    'How to restore it: docs/operating.md, "Back up and restore"',
  ]);
}

const HELP = `
With DATABASE_URL, or while Halcyon is running, it is a consistent dump by the pg_dump of this machine, which must be as new as
the server. Of a stopped embedded database it is a copy of its folder. The file is readable only by you, appears only when it
is complete, and never replaces an existing file.

With several databases (SHARD_DATABASES) it is a folder: a dump of each database, of the same moment, and manifest.json, which
lists them with their shards, sizes and SHA-256.`;

export function createBackupCommand(terminal: Terminal): CliCommand {
  return new CliCommand('backup')
    .description('write the whole database to one file')
    .option('--to <file>', 'the file or folder; default: a name with the time, in the current folder')
    .addHelpText('after', HELP)
    .examples('halcyon backup', 'halcyon backup --to /var/backups/halcyon.dump --json')
    .action((options: { to?: string }) => backup(terminal, options.to));
}
