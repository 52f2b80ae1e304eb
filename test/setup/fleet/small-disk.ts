/** A disk that is soon full: a tmpfs for a folder of a server, and a file on it that fills the free space. */
import { execFile } from 'node:child_process';
import { cp, mkdir, open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Cleanups } from '../cleanups.ts';

const run = promisify(execFile);
const PAGE_BYTES = 4_096;

async function hasSpace(file: FileHandle): Promise<boolean> {
  try {
    await file.write(Buffer.alloc(PAGE_BYTES));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false;
    throw error;
  }
}

export type SmallDisk = {
  /** Fills the free space; returns the number of bytes. */
  fill: () => Promise<number>;
  free: () => Promise<void>;
};

/**
 * Puts a folder of a stopped server onto a disk of that many bytes. With the folder of the tables the write-ahead log stays
 * where it is, as on a separate volume: if that is full PostgreSQL ends, and does not start before there is space.
 */
export async function moveToSmallDisk(folder: string, megabytes: number, ends: Cleanups): Promise<SmallDisk> {
  const { uid, gid } = await stat(folder);
  const before = `${folder}.before`;
  await rename(folder, before);
  await mkdir(folder, { mode: 0o700 });
  await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0700`, 'tmpfs', folder]);
  ends.after(() => run('umount', ['--lazy', folder]).then(() => {}));
  await cp(before, folder, { recursive: true, preserveTimestamps: true });
  await rm(before, { recursive: true });
  await run('chown', ['-R', `${uid}:${gid}`, folder]);
  const filler = join(folder, 'filler');
  return {
    fill: async () => {
      const file = await open(filler, 'w', 0o600);
      let bytes = 0;
      // Other processes use some of the free space; in pages, so that none is left over.
      while (await hasSpace(file)) bytes += PAGE_BYTES;
      await file.close();
      return bytes;
    },
    free: () => rm(filler),
  };
}
