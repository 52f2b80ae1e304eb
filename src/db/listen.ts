/** LISTEN on a dedicated connection, which is reopened when it breaks or stops responding. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Running } from '#core/lifecycle.ts';
import { ConnectionError, type Connection } from './connection.ts';
import { connectSeparately, type Sql } from './pool.ts';

/** Statements per `silenceMs` on an idle connection; one that does not respond to them is lost. */
const CHECKS = 4;
const RETRY_MIN_MS = 50;
const RETRY_MAX_MS = 2_000;

/**
 * Calls the handler of a channel with each payload. Notifications during an interruption are lost, so `onMissed` is called after
 * each reconnect. Rejects if the first connection cannot be opened.
 *
 * A connection that does not respond for `silenceMs` is replaced: the kernel takes a quarter of an hour to give up a peer that
 * vanished.
 */
export async function listen(
  sql: Sql,
  channels: Readonly<Record<string, (payload: string) => void>>,
  { onMissed, silenceMs }: { onMissed: () => void; silenceMs: number },
): Promise<Running> {
  const stopped = new AbortController();
  const open = async (): Promise<Connection> => {
    const opened = await connectSeparately(sql, silenceMs, stopped.signal);
    opened.client.on('notification', ({ channel, payload = '' }) => channels[channel]?.(payload));
    try {
      for (const name of Object.keys(channels)) await opened.query({ text: `listen ${sql(name).text}` });
      stopped.signal.throwIfAborted();
    } catch (error) {
      opened.destroy(error as Error);
      throw error;
    }
    opened.onLost = () => void reopen();
    return opened;
  };

  let connection = await open();
  const reopen = async (): Promise<void> => {
    for (let retryMs = RETRY_MIN_MS; !stopped.signal.aborted; retryMs = Math.min(2 * retryMs, RETRY_MAX_MS)) {
      try {
        connection = await open();
        onMissed();
        return;
      } catch {
        await delay(retryMs, undefined, { signal: stopped.signal }).catch(() => {});
      }
    }
  };
  const check = (): void => {
    // A statement that is sent while another waits would count as activity.
    if (connection.isIdle) connection.query({ text: 'select 1' }).catch(() => {});
  };
  const timer = setInterval(check, silenceMs / CHECKS);
  return {
    stop: async () => {
      clearInterval(timer);
      stopped.abort();
      connection.destroy(new ConnectionError('CONNECTION_ENDED', 'listening has ended'));
    },
  };
}
