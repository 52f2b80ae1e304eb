/** LISTEN on a connection of its own, which is opened again when it breaks, and when it goes silent. */
import { randomBytes } from 'node:crypto';
import type { Running } from '#core/lifecycle.ts';
import { openBeside, type Sql } from './pool.ts';

/** So many times in its time-out a word of our own is sent along the line; when none of them came back, it is dead. */
const ECHOES = 4;

/**
 * Calls for each payload of each channel. What is said while the connection is broken is lost, so `onMissed` is called each
 * time it listens again: whoever listens then looks for what it missed. A line on which our own words do not come back for
 * `silenceMs` is thrown away and another opened: the kernel takes a quarter of an hour to give up a peer that vanished without
 * a word, and the driver (3.4.9) does not listen again once its first try to do so failed. Rejects where the first one cannot
 * be opened.
 */
export const listen = async (
  sql: Sql,
  channels: Readonly<Record<string, (payload: string) => void>>,
  { onMissed, silenceMs }: { onMissed: () => void; silenceMs: number },
): Promise<Running> => {
  const echo = `halcyon_echo_${randomBytes(8).toString('hex')}`;
  let line = openBeside(sql, 1);
  /** Ticks since anything was heard: counted and not timed, so that a pause of our own is no silence. */
  let silentTicks = 0;
  let isFirst = true;

  const heard = () => (silentTicks = 0);
  const open = async (on: Sql): Promise<void> => {
    const names = Object.entries(channels);
    for (const [name, onMessage] of names) await on.listen(name, (payload) => (heard(), onMessage(payload)));
    // The last one, so that whoever looks for what it missed misses nothing more. Called on each return of the connection.
    await on.listen(echo, heard, () => {
      if (!isFirst) onMissed();
      isFirst = false;
    });
  };

  const tick = (): void => {
    silentTicks += 1;
    if (silentTicks > ECHOES) {
      silentTicks = 0;
      void line.end({ timeout: 0 });
      line = openBeside(sql, 1);
      open(line).catch(() => {});
    }
    line.notify(echo, '').catch(() => {});
  };

  await open(line);
  const timer = setInterval(tick, silenceMs / ECHOES);
  return {
    stop: async () => {
      clearInterval(timer);
      await line.end({ timeout: 0 });
    },
  };
};
