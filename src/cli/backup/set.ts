/**
 * Backs up the databases of a map of shards: one dump each, and a manifest. Each dump is consistent, and all have snapshots of the same
 * moment up to milliseconds: the snapshots are exported before the first dump begins. That of the home database is the first, so that
 * no change of the home database is missing in its outbox and in the database that applies it.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { link, mkdir, open, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { DatabaseError, openPool, type DatabaseAddress, type Queryable, type Sql } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { checkServer } from '#db/usable.ts';
import { openAddress } from '#shards/addresses.ts';
import { listLeasedShards, readIdentity, readMap } from '#shards/map-sql.ts';
import { listMoves } from '#shards/move/move-sql.ts';
import { formatShards, HOME, shardsOf, type MapDatabase, type ShardMap } from '#shards/map.ts';
import type { Config } from '#config/config.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { dump } from './dump.ts';
import { endSnapshot, exportSnapshot } from './set-sql.ts';

export const MANIFEST = 'manifest.json';

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
    const message = error instanceof Error ? error.message.replaceAll('DATABASE_URL', 'SHARD_DATABASES') : '';
    throw new DatabaseError(`${name}: ${message}`, { cause: error });
  });
  return { on: await pool.reserve(), major: Math.floor(version / 10_000) };
}

/** Exports a snapshot of each database, the home database first, and calls `use` while they exist. */
async function withSnapshots<T>(
  sources: readonly Source[],
  use: (snapshots: readonly Snapshot[]) => Promise<T>,
): Promise<T> {
  const pools: Sql[] = [];
  try {
    const opened = await Promise.all(
      sources.map(async (source) => {
        const pool = openPool(source.from, { connections: 1, applicationName: 'halcyon' });
        pools.push(pool);
        return { ...source, ...(await connect(pool, source)) };
      }),
    );
    const snapshots: Snapshot[] = [];
    for (const one of opened) snapshots.push({ ...one, snapshot: await exportSnapshot(one.on) });
    try {
      await requireComplete(snapshots);
      return await use(snapshots);
    } finally {
      for (const { on } of snapshots) await endSnapshot(on).catch(() => {});
    }
  } finally {
    await Promise.all(pools.map((pool) => pool.end({ timeout: 0 })));
  }
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

export type SetOptions = { config: Config; map: ShardMap; home: DatabaseAddress; folder: string };

/** Writes the dumps and the manifest into a new folder, which is removed if one fails. */
export async function backupSet(terminal: Terminal, { config, map, home, folder }: SetOptions): Promise<Manifest> {
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
      return manifest;
    });
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

async function flush(path: string): Promise<void> {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
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
    if (await exists(path)) throw alreadyExists(path);
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
  if (await exists(path)) throw alreadyExists(path);
  const part = `${path}.${randomBytes(4).toString('hex')}.part`;
  const handle = await open(part, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    throw new UserError(`${path} cannot be written (${error.code}): choose a file in a writable folder with --to`);
  });
  await handle.close();
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
