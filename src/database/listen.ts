/** LISTEN on a connection of its own, which the driver opens again when it breaks. */
import type { Sql } from './pool.ts';

/**
 * Calls `onMessage` with each payload. What is said while the connection is broken is lost, so `onReconnect` is called
 * each time it listens again: whoever listens then looks for what it missed.
 */
export const listen = async (
  sql: Sql,
  channel: string,
  onMessage: (payload: string) => void,
  onReconnect: () => void,
): Promise<{ stop: () => Promise<void> }> => {
  let isFirst = true;
  const listening = await sql.listen(channel, onMessage, () => {
    if (!isFirst) onReconnect();
    isFirst = false;
  });
  return { stop: () => listening.unlisten() };
};
