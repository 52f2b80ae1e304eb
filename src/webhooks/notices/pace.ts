/**
 * Rate limit of notices, against a webhook that is enabled or created again and again for an endpoint that answers 410: one mail
 * per hour, webhook and kind, and 100 per hour and store; to the developer of an app, whose webhooks in all stores may fail at once, one
 * per hour, app and kind. Each new key of a webhook is mailed, at most 100 per hour and app. Suppressed notices are still visible
 * on the page of the webhook and in the changelog. Each process counts separately.
 */
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
import type { Notice } from './notices.ts';
import type { NotifiedWebhook } from './notices-sql.ts';

const HOUR_MS = 3_600_000;
const STORE_MAILS_PER_HOUR = 100;
const APP_KEY_MAILS_PER_HOUR = 100;
const BUCKETS_MAX = 100_000;

/** Creates a token bucket per key, stored as the time when it is full again (generic cell rate algorithm). */
function createBuckets(mailsAnHour: number) {
  const fullAtMs = new LRUCache<string, number>(entriesUpTo(BUCKETS_MAX));
  return (key: string, nowMs: number): boolean => {
    const after = Math.max(fullAtMs.get(key) ?? nowMs, nowMs) + HOUR_MS / mailsAnHour;
    if (after > nowMs + HOUR_MS) return false;
    fullAtMs.set(key, after);
    return true;
  };
}

/** Returns whether the notice may be mailed, and counts it if so. */
type IsWithinLimit = (notice: Notice, webhook: NotifiedWebhook, nowMs: number) => boolean;
export type NoticeLimits = { ofStore: IsWithinLimit; ofDeveloper: IsWithinLimit; ofKeys: IsWithinLimit };

export function createNoticeLimits(): NoticeLimits {
  const [webhooks, stores, apps] = [createBuckets(1), createBuckets(STORE_MAILS_PER_HOUR), createBuckets(1)];
  const keys = createBuckets(APP_KEY_MAILS_PER_HOUR);
  return {
    ofStore: ({ about }, { id, storeId }, nowMs) => webhooks(`${id} ${about}`, nowMs) && stores(String(storeId), nowMs),
    ofDeveloper: ({ about }, { app }, nowMs) => app !== null && apps(`${app.clientId} ${about}`, nowMs),
    ofKeys: (_notice, { app }, nowMs) => app !== null && keys(app.clientId, nowMs),
  };
}
