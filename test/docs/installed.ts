/** The project as after a clone and an installation: in its own folder, with its own account. */
import { execFileSync } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, realpath, rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../setup/free-port.ts';
import { filesOfProject, ROOT } from './page.ts';

export type Installed = {
  path: string;
  /** The environment of shells in it: only what the network of the machine needs is passed on. */
  env: Record<string, string>;
  port: number;
  remove: () => Promise<void>;
};

/** By hard links, and not by one link to the folder: npm, if run here, would empty the linked folder. */
function linkInstalled(path: string): void {
  try {
    execFileSync('cp', ['-al', join(ROOT, 'node_modules'), path], { stdio: 'ignore' });
  } catch {
    // The folder for temporary files is on another disk.
    execFileSync('cp', ['-a', join(ROOT, 'node_modules'), path]);
  }
}

export async function installedCopy(): Promise<Installed> {
  const path = await mkdtemp(join(tmpdir(), 'halcyon-docs-'));
  // Gives access to the user that runs PostgreSQL for root; nothing is created under /var/lib.
  await chmod(path, 0o755);
  for (const file of filesOfProject()) await cp(join(ROOT, file), join(path, file));
  linkInstalled(path);
  // The packages are newer than the lock file's record, or `npm start` would request them from the network.
  await utimes(join(path, 'package-lock.json'), 0, 0);
  const home = join(path, '.home');
  await mkdir(home);
  const port = await freePort();
  return {
    path,
    port,
    env: {
      PATH: process.env['PATH'] ?? '',
      // Behind a proxy that signs for the registry, npm of another Node.js finds the authority in no file of its own.
      NODE_EXTRA_CA_CERTS: process.env['NODE_EXTRA_CA_CERTS'] ?? '',
      HOME: home,
      PORT: String(port),
      LANG: 'C.UTF-8',
      TERM: 'dumb',
      // The documents are written for a computer with a browser: without a display, login shows a code for another device.
      DISPLAY: ':0',
    },
    remove: async () => {
      const cluster = await realpath(join(path, '.halcyon/postgres')).catch(() => path);
      await rm(cluster, { recursive: true, force: true });
      await rm(path, { recursive: true, force: true });
    },
  };
}
