/** A disk that is soon full: a tmpfs for the tables of a server, and a file on it that fills the free space. */
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
 * Puts the tables in the data folder of a stopped server onto a disk of that many bytes. The write-ahead
 * log stays where it is, as on a separate volume: if that is full PostgreSQL ends, and does not
 * start before there is space.
 */
export async function moveToSmallDisk(data: string, megabytes: number, ends: Cleanups): Promise<SmallDisk> {
  const tables = join(data, 'base');
  const before = `${tables}.before`;
  await rename(tables, before);
  await mkdir(tables, { mode: 0o700 });
  await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0700`, 'tmpfs', tables]);
  ends.after(() => run('umount', ['--lazy', tables]).then(() => {}));
  await cp(before, tables, { recursive: true, preserveTimestamps: true });
  await rm(before, { recursive: true });
  const { uid, gid } = await stat(data);
  await run('chown', ['-R', `${uid}:${gid}`, tables]);
  const filler = join(tables, 'filler');
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
