/** LISTEN on a dedicated connection, which is reopened when it breaks or stops responding. */
import { randomBytes } from 'node:crypto';
import type { Running } from '#core/lifecycle.ts';
import { openBeside, type Sql } from './pool.ts';

/** Echo notifications per `silenceMs`; a connection that returns none of them is dead. */
const ECHOES = 4;

/**
 * Calls the handler of a channel with each payload. Notifications during an interruption are lost, so `onMissed` is called after
 * each reconnect. Rejects if the first connection cannot be opened.
 *
 * A connection whose echoes do not return for `silenceMs` is replaced: the kernel takes a quarter of an hour to give up a peer
 * that vanished, and the driver (3.4.9) does not listen again after its first attempt to do so failed.
 */
export async function listen(
  sql: Sql,
  channels: Readonly<Record<string, (payload: string) => void>>,
  { onMissed, silenceMs }: { onMissed: () => void; silenceMs: number },
): Promise<Running> {
  const echo = `halcyon_echo_${randomBytes(8).toString('hex')}`;
  let connection = openBeside(sql, 1);
  /** Ticks since the last notification: a count instead of a time, so that a paused process does not look like a dead connection. */
  let silentTicks = 0;
  let isFirst = true;

  const onAlive = () => (silentTicks = 0);
  const open = async (on: Sql): Promise<void> => {
    const names = Object.entries(channels);
    for (const [name, onMessage] of names) await on.listen(name, (payload) => (onAlive(), onMessage(payload)));
    // The last channel, so that all others listen before `onMissed` runs. The callback runs after each reconnect.
    await on.listen(echo, onAlive, () => {
      if (!isFirst) onMissed();
      isFirst = false;
    });
  };

  const tick = (): void => {
    silentTicks += 1;
    if (silentTicks > ECHOES) {
      silentTicks = 0;
      void connection.end({ timeout: 0 });
      connection = openBeside(sql, 1);
      open(connection).catch(() => {});
    }
    connection.notify(echo, '').catch(() => {});
  };

  await open(connection);
  const timer = setInterval(tick, silenceMs / ECHOES);
  return {
    stop: async () => {
      clearInterval(timer);
      await connection.end({ timeout: 0 });
    },
  };
}
