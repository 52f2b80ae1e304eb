/** Reads the free disk space of the embedded cluster; the disk of an external server cannot be read. */
import { stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasCode } from './data-folder.ts';

/** Folders of a cluster that an operator may put on other disks. */
const FOLDERS = ['.', 'postgres/data', 'postgres/data/base', 'postgres/data/pg_wal'];

/** Returns the folder, or its nearest existing parent. */
async function existing(folder: string): Promise<string> {
  for (let at = folder; ; at = dirname(at)) {
    const error = await stat(at).then(
      () => undefined,
      (failure: unknown) => failure,
    );
    if (error === undefined) return at;
    if (!hasCode(error, 'ENOENT', 'ENOTDIR') || at === dirname(at)) throw error;
  }
}

export type Space = { folder: string; freeBytes: number };

/** Returns the file system with the least free space among those that the cluster in `dataDir` writes to, or would at a first start. */
export async function readFreeSpace(dataDir: string): Promise<Space> {
  const folders = await Promise.all(FOLDERS.map((folder) => existing(join(dataDir, folder))));
  const spaces = await Promise.all(
    folders.map(async (folder) => {
      // `bavail` is the space for users other than root; PostgreSQL never runs as root.
      const { bavail, bsize } = await statfs(folder);
      return { folder, freeBytes: bavail * bsize };
    }),
  );
  return spaces.reduce((least, one) => (one.freeBytes < least.freeBytes ? one : least));
}
