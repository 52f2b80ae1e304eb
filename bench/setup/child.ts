/** A process of a bench that answers questions over Node's own channel, one function a question. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Defer } from './run.ts';

type Handlers = { readonly [name: string]: (input: never) => unknown };
type Asked = { id: number; name: string; input: unknown };
type Answered = { id: number; value?: unknown; error?: string };

export type Child<H extends Handlers> = {
  ask: <K extends keyof H & string>(name: K, input: Parameters<H[K]>[0]) => Promise<Awaited<ReturnType<H[K]>>>;
  /** Milliseconds of processor time the process has used. */
  cpuMs: () => Promise<number>;
  /** How it is now, and how late its event loop was since this was asked last. */
  vitals: () => Promise<Vitals>;
  /** Lets it end by itself, so that a profile of it is written. */
  stop: () => Promise<void>;
};

/** Memory of the whole process (RSS), and the 99th percentile of how late a timer of its event loop fires. */
type Vitals = { rssMiB: number; loopP99Ms: number };

const CPU = 'cpu';
const VITALS = 'vitals';
const LOOP_RESOLUTION_MS = 10;
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** A histogram of how long the loop took from one tick of a timer to the next, of which the timer's own span is taken off. */
function watchLoop(): () => Vitals {
  const delays = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  delays.enable();
  return () => {
    const loopP99Ms = Math.max(0, delays.percentile(99) / 1e6 - LOOP_RESOLUTION_MS);
    delays.reset();
    return { rssMiB: process.memoryUsage.rss() / 2 ** 20, loopP99Ms };
  };
}

/** The child's side: answers until the parent is gone, then runs `end`. */
export function answer(handlers: Handlers, end: () => Promise<void> = async () => {}): void {
  const all: Record<string, (input: never) => unknown> = { ...handlers, [CPU]: cpuMs, [VITALS]: watchLoop() };
  const answerOne = async ({ id, name, input }: Asked): Promise<void> => {
    const answered: Answered = { id };
    try {
      answered.value = await all[name]?.(input as never);
    } catch (error) {
      answered.error = error instanceof Error ? (error.stack ?? error.message) : String(error);
    }
    process.send?.(answered);
  };
  process.on('message', (asked: Asked) => void answerOne(asked));
  process.once('disconnect', () => void end().finally(() => process.exit()));
  // A terminal's ctrl-C reaches the whole group; the parent decides who goes when.
  process.on('SIGINT', () => {});
}

/** The parent's side. `file` is an `import.meta.resolve` of the bench, so that knip sees it. */
export async function startChild<H extends Handlers>(
  defer: Defer,
  file: string,
  execArgv: readonly string[] = [],
): Promise<Child<H>> {
  const process = fork(new URL(file), [], { execArgv: [...execArgv], serialization: 'advanced' });
  const waiting = new Map<number, (answered: Answered) => void>();
  const ended = once(process, 'exit');
  process.on('message', (answered: Answered) => waiting.get(answered.id)?.(answered));
  let asked = 0;
  const ask = async (name: string, input: unknown): Promise<unknown> => {
    const id = (asked += 1);
    const { promise, resolve } = Promise.withResolvers<Answered>();
    waiting.set(id, resolve);
    process.send({ id, name, input } satisfies Asked);
    const gone = ended.then(([code]): Answered => ({ id, error: `${file} ended with ${String(code)}` }));
    const { value, error } = await Promise.race([promise, gone]);
    waiting.delete(id);
    if (error !== undefined) throw new Error(`${name}: ${error}`);
    return value;
  };
  const stop = async () => {
    if (process.connected) process.disconnect();
    await ended;
  };
  defer(stop);
  await once(process, 'spawn');
  return {
    ask: ask as Child<H>['ask'],
    cpuMs: () => ask(CPU, null) as Promise<number>,
    vitals: () => ask(VITALS, null) as Promise<Vitals>,
    stop,
  };
}
