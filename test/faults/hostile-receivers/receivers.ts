/** The receivers' process, and the addresses at which each of them is found. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Endings } from '../../setup/endings.ts';
import { KINDS, NAMES } from './kinds.ts';
import type { Given, Ports, Seen } from './receivers-process.ts';

export const EACH = 20;
const MEASURED = 10;

export type Receivers = {
  proxy: string;
  /** Of those that are measured. */
  measured: readonly string[];
  /** By kind, in the order of `NAMES`, as many well-behaved ones. */
  tame: readonly (readonly string[])[];
  hostile: readonly (readonly string[])[];
  /** What was seen since this was asked last. */
  seen: () => Promise<Seen>;
};

/** An address each, so each is an origin of its own. */
const urlsAt = (who: number, kind: number, count: number, port: number, scheme = 'http'): string[] =>
  Array.from({ length: count }, (_, n) => `${scheme}://127.${who}.${kind}.${n + 1}:${port}/hook`);

function startProcess(ends: Endings) {
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

/** Two processes: what the hostile ones burn would be a delay of those that are measured otherwise. */
export async function startReceivers(ends: Endings, given: Omit<Given, 'isHostile'>): Promise<Receivers> {
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
