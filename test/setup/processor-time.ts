/** Reads the processor time of other processes and their children from /proc. */
import { readdir, readFile } from 'node:fs/promises';

const TICK_MS = 10;

/** Fields 4 and 14–17 of /proc/<pid>/stat (proc(5)), after a process name that may contain any character. */
async function readStat(pid: string): Promise<{ parent: number; own: number; ended: number } | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  if (fields.length < 15) return undefined;
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15).map(Number);
  return { parent: Number(fields[1]), own: user + system, ended: endedUser + endedSystem };
}

/** Returns the milliseconds used by the process and its children; NaN without /proc. */
export async function processorMsOf(pid: string): Promise<number> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^[0-9]+$/.test(name));
  const stats = await Promise.all(pids.map(readStat));
  let ticks = Number.NaN;
  const self = await readStat(pid);
  if (self !== undefined) ticks = self.own + self.ended;
  for (const stat of stats) if (stat?.parent === Number(pid)) ticks += stat.own;
  return ticks * TICK_MS;
}
