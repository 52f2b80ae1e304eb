/** Starts the program as a process on a data folder, controlled by signals. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DemoFile } from '../../src/cli/demo.ts';
import { COMPILED } from './child-environment.ts';
import { freePort } from './free-port.ts';

const MAIN = join(import.meta.dirname, '../../src/main.ts');

export type Fixture = {
  pid: number;
  demo: DemoFile;
  output: () => string;
  /** Sends the signal and waits for the end; returns the exit code, or the signal that ended the process. */
  end: (signal: NodeJS.Signals) => Promise<number | string | null>;
};

export type FixturePlace = { dataDir: string; env: Record<string, string>; remove: () => Promise<void> };

/** A data folder and a port, for several starts. */
export async function placeForFixture(env: Record<string, string> = {}): Promise<FixturePlace> {
  const dataDir = await mkdtemp(join(tmpdir(), 'halcyon-test-'));
  await chmod(dataDir, 0o755);
  const port = await freePort();
  return {
    dataDir,
    env: {
      ...COMPILED,
      PATH: process.env['PATH'] ?? '',
      HALCYON_DATA: dataDir,
      PORT: String(port),
      LOG_LEVEL: 'warn',
      ...env,
    },
    remove: async () => {
      const cluster = await realpath(join(dataDir, 'postgres')).catch(() => dataDir);
      await rm(cluster, { recursive: true, force: true });
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** Starts the program and waits until it logs that it is ready; throws with its output if it ends before. */
export async function startFixture({ dataDir, env }: FixturePlace): Promise<Fixture> {
  const child = spawn(process.execPath, [MAIN, 'serve'], { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let said = '';
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  const { promise: ready, resolve } = Promise.withResolvers<true>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (said.includes('is ready.') && said.includes('ctrl-C stops it')) resolve(true);
    });
  }
  const first = await Promise.race([ready, exited]);
  if (first !== true || child.pid === undefined) throw new Error(`The program ended before it was ready: ${said}`);
  const { pid } = child;
  return {
    pid,
    demo: JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8')) as DemoFile,
    output: () => said,
    end: async (signal) => {
      if (child.exitCode === null && child.signalCode === null) process.kill(pid, signal);
      const [code, by] = await exited;
      return by ?? code;
    },
  };
}
