/** How much room the embedded cluster has. Of another server's disk nothing can be seen from here. */
import { stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { has } from './data-folder.ts';

/** Folders of a cluster that an operator may put on other disks. */
const FOLDERS = ['.', 'postgres/data', 'postgres/data/base', 'postgres/data/pg_wal'];

/** The folder, or the nearest one above it that exists. */
const existing = async (folder: string): Promise<string> => {
  for (let at = folder; ; at = dirname(at)) {
    const error = await stat(at).then(
      () => undefined,
      (failure: unknown) => failure,
    );
    if (error === undefined) return at;
    if (!has(error, 'ENOENT', 'ENOTDIR') || at === dirname(at)) throw error;
  }
};

export type Space = { folder: string; freeBytes: number };

/** The fullest of the file systems that the cluster in `dataDir` writes to, or that a first start would write to. */
export const readFreeSpace = async (dataDir: string): Promise<Space> => {
  const folders = await Promise.all(FOLDERS.map((folder) => existing(join(dataDir, folder))));
  const spaces = await Promise.all(
    folders.map(async (folder) => {
      // `bavail` is what users other than root may still use; PostgreSQL never runs as root.
      const { bavail, bsize } = await statfs(folder);
      return { folder, freeBytes: bavail * bsize };
    }),
  );
  return spaces.reduce((least, one) => (one.freeBytes < least.freeBytes ? one : least));
};
