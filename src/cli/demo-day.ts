/**
 * Plays the last day of the demo store at its first start, so that its pages show what they are for: the whole application runs with a
 * clock that is behind, orders are published by its API, and they are delivered over HTTP. For the last half hour the endpoint of one webhook fails.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { orderEvents } from '#catalog/scenarios.ts';
import { systemClock, type Clock } from '#core/clock.ts';
import type { Config } from '#config/config.ts';
import type { Send } from '#server/app.ts';
import { completeFile, demoApi, type DemoApi } from './demo-api.ts';
import type { DemoFile } from './demo.ts';
import { FAILING_PATH } from './demo-receiver/server.ts';

/** Runs the application with a clock, without a port that would show its wrong dates, for as long as `play` takes. */
export type PlayWith = (clock: Clock, play: (send: Send) => Promise<void>) => Promise<void>;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** When orders are published, in ms before the end of the day: hourly, and several times while the endpoint fails. */
const TIMES_MS = [
  ...Array.from({ length: 23 }, (_, hour) => DAY_MS - (hour + 0.5) * HOUR_MS),
  ...[45, 28, 21, 14, 7, 2].map((minutes) => minutes * MINUTE_MS),
].toSorted((a, b) => b - a);
/** The last order of the day. */
const LAST_ORDER = 2_125;
/** Orders of each time: most in the morning and in the evening. */
const ORDERS_MAX = 6;
const TIMEOUT_MS = 10_000;
const POLL_MS = 20;

const ordersAt = (at: Date): number =>
  1 + Math.round((ORDERS_MAX - 1) * Math.abs(Math.sin((at.getUTCHours() / 24) * 2 * Math.PI)));

/** Returns the times of the day with the ids of their orders, which end with the last one. */
function planOf(endMs: number): { behindMs: number; ids: number[] }[] {
  const times = TIMES_MS.map((behindMs) => ({ behindMs, count: ordersAt(new Date(endMs - behindMs)) }));
  let next = LAST_ORDER + 1 - times.reduce((sum, { count }) => sum + count, 0);
  return times.map(({ behindMs, count }) => {
    const ids = Array.from({ length: count }, (_, order) => next + order);
    next += count;
    return { behindMs, ids };
  });
}

/** Waits until all deliveries of a webhook are attempted, or one failed. */
async function untilAttempted(api: DemoApi, token: string, webhookId: number): Promise<void> {
  const deadlineMs = performance.now() + TIMEOUT_MS;
  for (;;) {
    const { total_items: pending } = await api.get(`/webhooks/${webhookId}/statuses?status=pending&limit=1`, token);
    if (Number(pending) === 0) return;
    const { state } = await api.get(`/webhooks/${webhookId}`, token);
    if (state === 'failing') return;
    if (performance.now() > deadlineMs) throw new Error(`Deliveries of the webhook ${webhookId} are still pending`);
    await wait(POLL_MS);
  }
}

/** Publishes orders, and waits until they are delivered or one fails. */
async function playOrders(api: DemoApi, file: DemoFile, orders: { at: Date; ids: number[] }, webhooks: number[]) {
  const token = await api.platformToken();
  const events = orders.ids.flatMap((id) => orderEvents(id, orders.at));
  await api.post(`/stores/${file.store_id}/events`, token, events);
  for (const webhookId of webhooks) await untilAttempted(api, token, webhookId);
}

/** Plays the day, until `isStopping`. `keep` writes the file with the webhook of the receiver. */
export async function playDemoDay({
  file,
  config,
  playWith,
  keep,
  isStopping,
}: {
  file: DemoFile;
  config: Config;
  playWith: PlayWith;
  isStopping: () => boolean;
  keep: (file: DemoFile) => Promise<void>;
}): Promise<void> {
  let behindMs = DAY_MS;
  const clock: Clock = { now: () => new Date(Date.now() - behindMs), monotonicMs: systemClock.monotonicMs };
  await playWith(clock, async (send) => {
    const api = demoApi(file, config, send);
    const completed = await completeFile(file, config, send);
    await keep(completed);
    const { id: warehouse } = await api.post(`/stores/${file.store_id}/webhooks`, completed.access_token, {
      name: 'Warehouse',
      format: 'json',
      url: new URL(FAILING_PATH, file.receiver.url).href,
      query: 'zoom=items',
      event_resource: 'transaction',
      events: ['transaction/captured'],
      encryption_key: file.receiver.encryption_key,
    });
    const webhooks = [completed.webhook_id, Number(warehouse)];
    for (const one of planOf(Date.now())) {
      if (isStopping()) return;
      ({ behindMs } = one);
      await playOrders(api, file, { at: clock.now(), ids: one.ids }, webhooks);
    }
  });
}
