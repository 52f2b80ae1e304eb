/**
 * Which notices are mailed. Somebody may switch a webhook on over and over at an endpoint that answers 410, or make new ones in its
 * place: the store gets one mail of a kind about a webhook an hour, and no more in all than it may have webhooks. What is not
 * mailed stands on the page of the webhook, and in the changelog. Each process counts for itself.
 */
import { LRUCache } from 'lru-cache';
import type { Notice } from './notices.ts';
import type { Noticed } from './notices-sql.ts';

const HOUR_MS = 3_600_000;
const MAILS_OF_A_STORE = 100;
const COUNTED_MAX = 100_000;

/** A bucket for each key, of which the one value is when it is full again (the generic cell rate algorithm). */
const createBuckets = (mailsAnHour: number) => {
  const fullAtMs = new LRUCache<string, number>({ max: COUNTED_MAX });
  return (key: string, nowMs: number): boolean => {
    const after = Math.max(fullAtMs.get(key) ?? nowMs, nowMs) + HOUR_MS / mailsAnHour;
    if (after > nowMs + HOUR_MS) return false;
    fullAtMs.set(key, after);
    return true;
  };
};

/** Whether this one is mailed, which is counted then. */
export type Pace = (notice: Notice, noticed: Noticed, nowMs: number) => boolean;

export const createPace = (): Pace => {
  const ofWebhook = createBuckets(1);
  const ofStore = createBuckets(MAILS_OF_A_STORE);
  return ({ about }, { id, storeId }, nowMs) => ofWebhook(`${id} ${about}`, nowMs) && ofStore(String(storeId), nowMs);
};
