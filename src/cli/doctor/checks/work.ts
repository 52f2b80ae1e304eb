/** What the processes are at: who delivers, what waits, and what is left to be swept. */
import { setTimeout as delay } from 'node:timers/promises';
import { look, type WorkerRow } from '#delivery/leases/leases-sql.ts';
import { SHARDS } from '#core/ids.ts';
import type { Config } from '#config/config.ts';
import { countOf, fail, ok, spanOf, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { briefly, countWebhooks, readBacklog, readOldestUnswept } from '../doctor-sql.ts';

/** Who has beaten between two looks is alive: the counter is the truth, and no clock is asked. */
const BEATS = 2;
/** How long that takes. */
export const watchMs = ({ delivery }: Config): number => BEATS * delivery.beatMs;
/** Shards are handed out so that nobody has more than one above another; while they move it may be more. */
const UNEVEN = 1.5;

const living = (before: readonly WorkerRow[], after: readonly WorkerRow[]): Set<number> => {
  const beats = new Map(before.map(({ id, beat }) => [id, beat]));
  return new Set(after.filter(({ id, beat }) => beats.get(id) !== beat).map(({ id }) => id));
};

export const checkWorkers = async ({ direct, config }: DoctorContext): Promise<Finding[]> => {
  const [before] = await briefly(direct, look);
  await delay(watchMs(config));
  const [after, leases] = await briefly(direct, look);
  const alive = living(before, after);
  const silent = after.filter(({ id }) => !alive.has(id)).length;
  const held = new Map([...alive].map((id) => [id, 0]));
  for (const { owner } of leases) if (owner !== null && held.has(owner)) held.set(owner, (held.get(owner) ?? 0) + 1);
  const counts = [...held.values()];
  const served = counts.reduce((sum, count) => sum + count, 0);
  const gone = silent === 0 ? '' : `, and ${countOf(silent, 'other')} of which nothing is heard`;
  if (alive.size === 0) {
    const message = `nobody delivers${silent === 0 ? '' : `: ${countOf(silent, 'worker')} of which nothing is heard`}`;
    return [warn('workers', message, 'Start one: halcyon serve, or halcyon deliver. What is accepted waits meanwhile')];
  }
  const told = `${countOf(alive.size, 'worker')} with ${served} of ${SHARDS} shards${gone}`;
  if (served < SHARDS) {
    const advice =
      'Run this again: shards of a worker that ended are taken within seconds. If it stays, its log says why';
    return [warn('workers', told, advice)];
  }
  const fair = SHARDS / alive.size;
  if (counts.some((count) => count > UNEVEN * fair + 1 || count < fair / UNEVEN - 1))
    return [
      warn(
        'workers',
        `${told}, unevenly: ${counts.toSorted((a, b) => a - b).join(', ')}`,
        'Run this again: workers even them out within seconds',
      ),
    ];
  return [ok('workers', told)];
};

const LATE_SECONDS = 60;
const TOO_LATE_SECONDS = 600;

export const checkBacklog = async ({ direct, clock }: DoctorContext): Promise<Finding[]> => {
  const now = clock.now();
  const { due, oldest, held, ended } = await briefly(direct, (tx) => readBacklog(tx, now));
  const seconds = oldest === null ? 0 : (now.getTime() - oldest.getTime()) / 1_000;
  const wait = oldest === null ? '' : `, the oldest for ${spanOf(seconds)}`;
  const others = `${held} wait for their endpoints, ${ended} ended with their webhook`;
  const told = `${countOf(due, 'delivery', 'deliveries')} due${wait}; ${others}`;
  const advice =
    'Start more workers (halcyon deliver), or see in their logs and in halcyon_delivery_backlog_age_seconds what they wait for';
  if (seconds > TOO_LATE_SECONDS) return [fail('backlog', told, advice)];
  return [seconds > LATE_SECONDS ? warn('backlog', told, advice) : ok('backlog', told)];
};

export const checkWebhooks = async ({ direct }: DoctorContext): Promise<Finding[]> => {
  const { active, inactive, failing } = await briefly(direct, countWebhooks);
  const told = `${active} active, of which ${failing} fail; ${inactive} switched off`;
  // One that fails is its owner's business; half of them is more likely ours: the network, a name server, a certificate.
  if (active > 1 && failing > active / 2)
    return [
      warn(
        'webhooks',
        told,
        'More than half fail: see that this machine reaches the internet, and what the log says of attempts',
      ),
    ];
  return [ok('webhooks', told)];
};

/** Housekeeping comes each minute, and what it sweeps has had its time for a day. */
const UNSWEPT_HOURS = 48;

export const checkRetention = async ({ direct, clock }: DoctorContext): Promise<Finding[]> => {
  const oldest = await briefly(direct, readOldestUnswept);
  const hours = oldest === undefined ? 0 : (clock.now().getTime() - oldest.getTime()) / 3_600_000;
  if (hours <= UNSWEPT_HOURS) return [ok('housekeeping', 'what has had its time is deleted')];
  const message = `what ran out ${spanOf(hours * 3_600)} ago is not deleted yet`;
  return [
    warn(
      'housekeeping',
      message,
      'It is done by halcyon serve, once a minute: see that one runs, and what its log says',
    ),
  ];
};
