/** Runs `publish` and reports progress and result. */
import type { Clock } from '#core/clock.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { createSend } from './api.ts';
import { openInput } from './input.ts';
import { createKeys } from './keys.ts';
import { linesOf } from './lines.ts';
import { batchesOf } from './batches.ts';
import type { PublishTarget } from './target.ts';
import { progressLine } from './progress.ts';
import { sendAll, type Refused, type PublishCounts } from './run.ts';

/** More than the limit of an event (256 KiB of JSON as Halcyon writes it; a file may escape more characters). */
const LINE_BYTES = 2 * 1024 * 1024;
/**
 * Events per second with arrays of 500, 200 and 50, relative to arrays of 1,000: 0.97, 0.68, 0.44. The byte limit keeps arrays of
 * events with many members below the server's limit of commas in a body.
 */
const BATCH = { events: 500, bytes: 2 * 1024 * 1024 };
const PROGRESS_MS = 100;
/** The limit of faults in the JSON output; stderr has all of them. */
const FAULTS_IN_JSON = 100;

export type PublishRun = {
  terminal: Terminal;
  target: PublishTarget;
  retryForSeconds: number;
  keepsGoing: boolean;
  isJson: boolean;
  clock: Clock;
  random: () => number;
};

const whole = new Intl.NumberFormat('en');
const eventsOf = (count: number): string => `${whole.format(count)} ${count === 1 ? 'event' : 'events'}`;

const RUN_AGAIN = 'run the same command again within 24 hours; published events are not published twice';

/** Returns the error with a remedy; undefined if every line is published. */
function failureOf(thrown: unknown, counts: PublishCounts, signal: string | undefined): unknown {
  const sofar = `${eventsOf(counts.published)} ${counts.published === 1 ? 'is' : 'are'} published`;
  if (signal !== undefined) {
    return new UserError(
      `${signal}: ${sofar}, and possibly the array in progress. To continue, ${RUN_AGAIN}`,
      EXIT.interrupted,
    );
  }
  if (thrown instanceof UserError && counts.published === 0) return thrown;
  if (thrown instanceof UserError)
    return new UserError(`${thrown.message}. ${sofar}. To continue, ${RUN_AGAIN}`, thrown.exitCode);
  if (thrown !== undefined) return thrown;
  if (counts.refused === 0) return undefined;
  const lines =
    counts.refused === 1
      ? '1 line was rejected. Correct it'
      : `${whole.format(counts.refused)} lines were rejected. Correct them`;
  return new UserError(`${lines} and ${RUN_AGAIN}`, EXIT.incomplete);
}

/** Publishes a file, or stdin for `-`; throws a `UserError` unless every line of it is published. */
export async function publishInput(file: string, run: PublishRun): Promise<void> {
  const { terminal, clock } = run;
  const stop = new AbortController();
  let signal: string | undefined;
  void terminal.untilStopSignal().then((name) => {
    signal = name;
    stop.abort();
  });
  const input = await openInput(file, terminal, stop.signal);
  const counts: PublishCounts = { published: 0, bytes: 0, refused: 0 };
  const faults: Refused[] = [];
  const startedMs = clock.monotonicMs();
  const secondsNow = (): number => (clock.monotonicMs() - startedMs) / 1000;
  let shownMs = -Infinity;
  const onProgress = (): void => {
    const nowMs = clock.monotonicMs();
    if (nowMs - shownMs < PROGRESS_MS) return;
    shownMs = nowMs;
    const done = { events: counts.published, bytes: counts.bytes, seconds: secondsNow() };
    terminal.showProgress?.(progressLine(done, input.bytes));
  };
  const warn = (text: string): void => {
    terminal.showProgress?.('');
    terminal.warn(text);
  };
  const onRefused = (refused: Refused): void => {
    if (faults.length < FAULTS_IN_JSON) faults.push(refused);
    for (const message of refused.messages) warn(`${input.name}:${refused.line}: ${message}`);
  };
  const { retryForSeconds, random, target, keepsGoing } = run;
  const send = createSend(target, { retryForSeconds, clock, random, stop: stop.signal, warn });
  const items = batchesOf(linesOf(input.stream, { limitBytes: LINE_BYTES }), BATCH, createKeys(target.clientSecret));
  let thrown: unknown;
  try {
    await sendAll(items, counts, { send, keepsGoing, onRefused, onProgress });
  } catch (error) {
    thrown = error;
  } finally {
    input.stream.destroy();
  }
  const failure = failureOf(thrown, counts, signal);
  terminal.showProgress?.('');
  const seconds = Number(secondsNow().toFixed(3));
  const { published, refused } = counts;
  if (run.isJson) {
    const complete = thrown === undefined && signal === undefined;
    terminal.print(JSON.stringify({ complete, published, refused, seconds, faults }));
  } else if (published > 0 || failure === undefined) {
    const rate = whole.format(Math.round(published / Math.max(seconds, 0.001)));
    terminal.print(`${eventsOf(published)} published in ${seconds.toFixed(1)} s (${rate} a second)`);
  }
  if (failure !== undefined) throw failure;
}
