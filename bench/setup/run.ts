/** How every bench runs: options with defaults, what it set up taken down again however it ends. */
import { parseArgs, styleText } from 'node:util';

/** Registers what takes down a part that was set up; the last part goes first. */
export type Defer = (end: () => Promise<void>) => void;

type Options<N extends string, F extends string> = Record<N, number> & Record<F, boolean>;

function readOptions<N extends string, F extends string>(
  numbers: Readonly<Record<N, number>>,
  flags: readonly F[],
): Options<N, F> {
  const names = Object.keys(numbers);
  const { values } = parseArgs({
    options: {
      ...Object.fromEntries(names.map((name) => [name, { type: 'string' as const }])),
      ...Object.fromEntries(flags.map((name) => [name, { type: 'boolean' as const }])),
    },
  });
  const read = names.map((name) => {
    const value = Number(values[name] ?? numbers[name as N]);
    if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} takes a whole number from 1`);
    return [name, value];
  });
  return Object.fromEntries([...read, ...flags.map((name) => [name, values[name] === true])]) as Options<N, F>;
}

export function print(text = ''): void {
  process.stdout.write(`${text}\n`);
}

export function heading(text: string): void {
  return print(`\n${styleText('bold', text)}`);
}

const INTERRUPTED = Symbol('interrupted');

/** Runs one bench. ctrl-C, or a reader of our output that went away, takes down what was set up, as the end does. */
export async function bench<N extends string, F extends string = never>(
  given: { numbers: Readonly<Record<N, number>>; flags?: readonly F[] },
  body: (options: Options<N, F>, defer: Defer) => Promise<void>,
): Promise<void> {
  const options = readOptions(given.numbers, given.flags ?? []);
  const ends = new AsyncDisposableStack();
  const { promise: interrupted, resolve } = Promise.withResolvers<typeof INTERRUPTED>();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve(INTERRUPTED));
  process.stdout.on('error', () => resolve(INTERRUPTED));
  try {
    const end = await Promise.race([body(options, (one) => ends.defer(one)), interrupted]);
    if (end === INTERRUPTED) process.exitCode = 1;
  } finally {
    await ends.disposeAsync();
  }
}
