/** A disk that is soon full: a tmpfs of its own for the tables of a server, and a file on it that takes what is free. */
import { execFile } from 'node:child_process';
import { cp, mkdir, open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Endings } from '../endings.ts';

const run = promisify(execFile);
const PAGE_BYTES = 4_096;

async function hasRoom(file: FileHandle): Promise<boolean> {
  try {
    await file.write(Buffer.alloc(PAGE_BYTES));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false;
    throw error;
  }
}

export type SmallDisk = {
  /** Takes all that is free; answers how many bytes that was. */
  fill: () => Promise<number>;
  free: () => Promise<void>;
};

/**
 * Puts the tables in the data folder of a server that does not run yet onto a disk of so many bytes. The log of
 * transactions stays where it is, as it does on a volume of its own: where that is full PostgreSQL ends, and does not
 * start before there is room.
 */
export async function moveToSmallDisk(data: string, megabytes: number, ends: Endings): Promise<SmallDisk> {
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
      // Whoever works beside it takes some of what is free; in pages, so that none is left over.
      while (await hasRoom(file)) bytes += PAGE_BYTES;
      await file.close();
      return bytes;
    },
    free: () => rm(filler),
  };
}
