/** The receivers' process, and the addresses of each of them. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Cleanups } from '../../setup/cleanups.ts';
import { KINDS, NAMES } from './kinds.ts';
import type { Given, Ports, Seen } from './receivers-process.ts';

export const EACH = 20;
const MEASURED = 10;

export type Receivers = {
  proxy: string;
  /** Of the measured ones. */
  measured: readonly string[];
  /** By kind, in the order of `NAMES`, as many well-behaved ones. */
  tame: readonly (readonly string[])[];
  hostile: readonly (readonly string[])[];
  /** Returns the counts since the last query. */
  seen: () => Promise<Seen>;
};

/** Each has an address, and so an origin, of its own. */
const urlsAt = (who: number, kind: number, count: number, port: number, scheme = 'http'): string[] =>
  Array.from({ length: count }, (_, n) => `${scheme}://127.${who}.${kind}.${n + 1}:${port}/hook`);

function startProcess(ends: Cleanups) {
  const child = fork(new URL(import.meta.resolve('./receivers-process.ts')));
  const ended = once(child, 'exit');
  ends.after(async () => {
    if (child.connected) child.disconnect();
    await ended;
  });
  return async <T>(question: Given | 'seen'): Promise<T> => {
    const answered = once(child, 'message');
    child.send(question);
    const [answer] = (await answered) as [T];
    return answer;
  };
}

/** Two processes: the load of the hostile ones would otherwise delay the measured ones. */
export async function startReceivers(ends: Cleanups, given: Omit<Given, 'isHostile'>): Promise<Receivers> {
  const [askHostile, askTame] = [startProcess(ends), startProcess(ends)];
  const hostile = await askHostile<Ports>({ ...given, isHostile: true });
  const tame = await askTame<Ports>({ ...given, isHostile: false });
  const hostileAt = (name: string, kind: number): string[] => {
    const tls = KINDS[name]?.tls;
    return tls === undefined ? urlsAt(10, kind, EACH, hostile.plain) : urlsAt(10, kind, EACH, hostile[tls], 'https');
  };
  return {
    proxy: `http://127.0.0.1:${tame.proxy}`,
    measured: urlsAt(30, 0, MEASURED, tame.plain),
    tame: NAMES.map((_, kind) => urlsAt(20, kind, EACH, tame.plain)),
    hostile: NAMES.map(hostileAt),
    seen: () => askTame<Seen>('seen'),
  };
}
