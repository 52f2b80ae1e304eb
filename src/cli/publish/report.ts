/** A run from its beginning to its end, and what a person or a program is told of it. */
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

/** More than any event may have (256 KiB of JSON as Halcyon writes it, which a file may spell with more characters). */
const LINE_BYTES = 2 * 1024 * 1024;
/**
 * Events a second with arrays of 500, 200 and 50, as a share of those with arrays of 1,000: 0.97, 0.68, 0.44. The bytes keep an
 * array of events with many members within the commas that a body may have.
 */
const PARCEL = { events: 500, bytes: 2 * 1024 * 1024 };
const PROGRESS_MS = 100;
/** Of many faults these tell what is wrong; all of them stand on stderr. */
const FAULTS_IN_JSON = 100;

export type PublishRun = {
  terminal: Terminal;
  place: PublishTarget;
  retryForSeconds: number;
  keepsGoing: boolean;
  isJson: boolean;
  clock: Clock;
  random: () => number;
};

const whole = new Intl.NumberFormat('en');
const eventsOf = (count: number): string => `${whole.format(count)} ${count === 1 ? 'event' : 'events'}`;

const AGAIN = 'run the same command again within 24 hours; what is published is not published twice';

/** What ended it, as an error that says how to go on; undefined where every line is published. */
const endOf = (thrown: unknown, tally: PublishCounts, signal: string | undefined): unknown => {
  const sofar = `${eventsOf(tally.published)} ${tally.published === 1 ? 'is' : 'are'} published`;
  if (signal !== undefined) {
    return new UserError(
      `${signal}: ${sofar}, and perhaps the array that was under way. To go on, ${AGAIN}`,
      EXIT.interrupted,
    );
  }
  if (thrown instanceof UserError && tally.published === 0) return thrown;
  if (thrown instanceof UserError)
    return new UserError(`${thrown.message}. ${sofar}. To go on, ${AGAIN}`, thrown.exitCode);
  if (thrown !== undefined) return thrown;
  if (tally.refused === 0) return undefined;
  const lines =
    tally.refused === 1
      ? '1 line was refused. Mend it'
      : `${whole.format(tally.refused)} lines were refused. Mend them`;
  return new UserError(`${lines} and ${AGAIN}`, EXIT.incomplete);
};

/** Publishes a file, or stdin for `-`; throws a `UserError` unless every line of it is published. */
export const publishInput = async (file: string, run: PublishRun): Promise<void> => {
  const { terminal, clock } = run;
  const stop = new AbortController();
  let signal: string | undefined;
  void terminal.untilStopSignal().then((name) => {
    signal = name;
    stop.abort();
  });
  const input = await openInput(file, terminal, stop.signal);
  const tally: PublishCounts = { published: 0, bytes: 0, refused: 0 };
  const faults: Refused[] = [];
  const beganMs = clock.monotonicMs();
  const secondsNow = (): number => (clock.monotonicMs() - beganMs) / 1000;
  let shownMs = -Infinity;
  const onProgress = (): void => {
    const nowMs = clock.monotonicMs();
    if (nowMs - shownMs < PROGRESS_MS) return;
    shownMs = nowMs;
    const done = { events: tally.published, bytes: tally.bytes, seconds: secondsNow() };
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
  const { retryForSeconds, random, place, keepsGoing } = run;
  const send = createSend(place, { retryForSeconds, clock, random, stop: stop.signal, warn });
  const items = batchesOf(linesOf(input.stream, { limitBytes: LINE_BYTES }), PARCEL, createKeys(place.clientSecret));
  let thrown: unknown;
  try {
    await sendAll(items, tally, { send, keepsGoing, onRefused, onProgress });
  } catch (error) {
    thrown = error;
  } finally {
    input.stream.destroy();
  }
  const end = endOf(thrown, tally, signal);
  terminal.showProgress?.('');
  const seconds = Number(secondsNow().toFixed(3));
  const { published, refused } = tally;
  if (run.isJson) {
    const complete = thrown === undefined && signal === undefined;
    terminal.print(JSON.stringify({ complete, published, refused, seconds, faults }));
  } else if (published > 0 || end === undefined) {
    const rate = whole.format(Math.round(published / Math.max(seconds, 0.001)));
    terminal.print(`${eventsOf(published)} published in ${seconds.toFixed(1)} s (${rate} a second)`);
  }
  if (end !== undefined) throw end;
};
