/** In which order bodies are read with the rows of a fetch, of which not all may fit. */
import type { Pending } from './holding.ts';

/** The events of the first delivery of each webhook, then those of the second, and so on: each has something to begin with. */
export const eventsByTurn = (rows: readonly Pending[]): number[] => {
  const turns: number[][] = [];
  const taken = new Map<number, number>();
  for (const { webhookId, eventId } of rows) {
    const turn = taken.get(webhookId) ?? 0;
    taken.set(webhookId, turn + 1);
    (turns[turn] ??= []).push(eventId);
  }
  return turns.flat();
};
