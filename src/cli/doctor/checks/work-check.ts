/** Checks of the running processes: workers, backlog, failing webhooks and retention. */
import { setTimeout as delay } from 'node:timers/promises';
import { allEvents } from '#catalog/catalog.ts';
import { look, type WorkerRow } from '#delivery/leases/leases-sql.ts';
import type { Config } from '#config/config.ts';
import { countOf, fail, ok, spanOf, warn, type Finding, type DoctorContext } from '../finding.ts';
import { withTimeouts, countSubscribers, countWebhooks, findOldestPublishKey, readBacklog } from '../doctor-sql.ts';
import { listOldestExpired } from '../oldest-sql.ts';

/** A worker is alive if its heartbeat counter rises between two reads; clocks are not compared. */
const BEATS = 2;
/** Returns the time between the two reads. */
export function watchMs({ delivery }: Config): number {
  return BEATS * delivery.beatMs;
}
/** Shares of workers differ by at most one shard, and by more only while shards move. */
const UNEVEN = 1.5;

function aliveWorkers(before: readonly WorkerRow[], after: readonly WorkerRow[]): Set<number> {
  const beats = new Map(before.map(({ id, beat }) => [id, beat]));
  return new Set(after.filter(({ id, beat }) => beats.get(id) !== beat).map(({ id }) => id));
}

export async function checkWorkers({ direct, config }: DoctorContext): Promise<Finding[]> {
  const [before] = await withTimeouts(direct, look);
  await delay(watchMs(config));
  const [after, leases] = await withTimeouts(direct, look);
  const alive = aliveWorkers(before, after);
  const silent = after.filter(({ id }) => !alive.has(id)).length;
  const owned = new Map([...alive].map((id) => [id, 0]));
  for (const { owner } of leases) if (owner !== null && owned.has(owner)) owned.set(owner, (owned.get(owner) ?? 0) + 1);
  const shards = leases.length;
  if (shards === 0) return [ok('workers', 'this database owns no shards')];
  const counts = [...owned.values()];
  const served = counts.reduce((sum, count) => sum + count, 0);
  if (alive.size === 0) {
    const suffix = silent === 0 ? '' : `: ${countOf(silent, 'worker')} without a heartbeat`;
    const advice = 'Start one: halcyon serve, or halcyon deliver. Accepted events wait meanwhile';
    return [warn('workers', `no worker delivers${suffix}`, advice)];
  }
  const others = silent === 0 ? '' : `, and ${countOf(silent, 'other')} without a heartbeat`;
  const message = `${countOf(alive.size, 'worker')} with ${served} of ${shards} shards${others}`;
  if (served < shards) {
    const advice =
      'Run this again: shards of a stopped worker are taken within seconds. Otherwise see the log of a worker';
    return [warn('workers', message, advice)];
  }
  const fair = shards / alive.size;
  if (counts.some((count) => count > UNEVEN * fair + 1 || count < fair / UNEVEN - 1))
    return [
      warn(
        'workers',
        `${message}, unevenly: ${counts.toSorted((a, b) => a - b).join(', ')}`,
        'Run this again: workers rebalance within seconds',
      ),
    ];
  return [ok('workers', message)];
}

const WARN_SECONDS = 60;
const FAIL_SECONDS = 600;

export async function checkBacklog({ direct, clock }: DoctorContext): Promise<Finding[]> {
  const now = clock.now();
  const { due, oldest, held, ended } = await withTimeouts(direct, (tx) => readBacklog(tx, now));
  const seconds = oldest === null ? 0 : (now.getTime() - oldest.getTime()) / 1_000;
  const wait = oldest === null ? '' : `, the oldest for ${spanOf(seconds)}`;
  const others = `${held} wait for their endpoints, ${ended} ended with their webhook`;
  const message = `${countOf(due, 'delivery', 'deliveries')} due${wait}; ${others}`;
  const advice =
    'Start more workers (halcyon deliver), or find the reason in their logs and in halcyon_delivery_backlog_age_seconds';
  if (seconds > FAIL_SECONDS) return [fail('backlog', message, advice)];
  return [seconds > WARN_SECONDS ? warn('backlog', message, advice) : ok('backlog', message)];
}

export async function checkWebhooks({ direct }: DoctorContext): Promise<Finding[]> {
  const { active, inactive, failing } = await withTimeouts(direct, countWebhooks);
  const message = `${active} active, of which ${failing} fail; ${inactive} disabled`;
  // A few failing webhooks concern their owners; more than half indicates a local cause: network, name server, certificate.
  if (active > 1 && failing > active / 2)
    return [
      warn(
        'webhooks',
        message,
        'More than half fail: check that this machine reaches the internet, and the attempts in the log',
      ),
    ];
  return [ok('webhooks', message)];
}

const NAMED_EVENTS_MAX = 5;

/** Checks whether webhooks subscribe to events that `EVENTS_FILE` no longer declares. */
export async function checkEvents({ direct }: DoctorContext): Promise<Finding[]> {
  const events = allEvents();
  const removed = await withTimeouts(direct, (tx) => countSubscribers(tx, events));
  if (removed.length === 0) return [ok('events', `${countOf(events.length, 'event')} can be subscribed to`)];
  const named = removed
    .slice(0, NAMED_EVENTS_MAX)
    .map(({ event, webhooks }) => `${event} (${countOf(webhooks, 'webhook')})`);
  const more = removed.length > named.length ? ` and ${removed.length - named.length} more` : '';
  const advice = 'Declare them in EVENTS_FILE again, or ask the stores to change these webhooks';
  return [warn('events', `webhooks subscribe to events that do not exist: ${named.join(', ')}${more}`, advice)];
}

/** Retention runs every minute and deletes rows a day after they expire. */
const OVERDUE_HOURS = 48;

export async function checkRetention({ direct, clock }: DoctorContext): Promise<Finding[]> {
  const ofKeys = await withTimeouts(direct, findOldestPublishKey);
  const now = clock.now();
  const expired = [...(await withTimeouts(direct, listOldestExpired)), ofKeys ?? now];
  const hours = Math.max(...expired.map((at) => now.getTime() - at.getTime())) / 3_600_000;
  if (hours <= OVERDUE_HOURS) return [ok('housekeeping', 'expired rows are deleted in time')];
  const message = `rows that expired ${spanOf(hours * 3_600)} ago are not deleted yet`;
  return [warn('housekeeping', message, 'halcyon serve deletes them once a minute: check that one runs, and its log')];
}
