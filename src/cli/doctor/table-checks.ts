/** The checks of one database that has tables: its schema and key, and the work of the processes that use it. */
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { allEvents, mappedTypes } from '#catalog/catalog.ts';
import { dayOf, shardOf } from '#core/ids.ts';
import type { Keys } from '#core/keys.ts';
import type { Config } from '#config/config.ts';
import { readTransactionAges } from '#db/activity.ts';
import { readDatabaseTime } from '#db/database-clock.ts';
import { compare, findTooOld, migrationsIn, MIGRATIONS } from '#db/migrate.ts';
import { readUsedNumbers, PARENTS, partitionsOf } from '#db/partitions.ts';
import { announceWorking, type Queryable, type Tx } from '#db/pool.ts';
import { createSealer, keyIdOf, readSealingKey } from '#db/seal.ts';
import { look, type WorkerRow } from '#delivery/leases/leases-sql.ts';
import { readBacklog } from '#delivery/queue/queue-sql.ts';
import { hasStore } from '#webhooks/webhook-sql.ts';
import { createKeyVault } from '#webhooks/webhook-vault.ts';
import { findKeyFiles } from '../key-file.ts';
import { countOf, fail, graded, ok, orOk, spanOf, warn, type Check, type Database, type Verdict } from './check.ts';
import {
  countSubscribers,
  countWebhooks,
  findOldestPublishKey,
  listMigrations,
  listSequences,
  listSlots,
  listStuckSessions,
  withTimeouts,
} from './doctor-sql.ts';
import { listOldestExpired } from '#identity/oauth/oauth-purges-sql.ts';

/** A check by what it reads from PostgreSQL, its verdicts on that, and what is well if there are none. */
type Described<Facts> = {
  name: string;
  read: (tx: Tx, place: Database) => Promise<Facts>;
  verdicts: (facts: Facts, place: Database) => Verdict[];
  well?: (facts: Facts) => string;
};

const described = <Facts>({ name, read, verdicts, well }: Described<Facts>): Check<Database> => ({
  name,
  run: async (place) => {
    const facts = await withTimeouts(place.direct, (tx) => read(tx, place));
    const found = verdicts(facts, place);
    return well === undefined ? found : orOk(found, well(facts));
  },
});

/** Returns the check of the migrations; `ifEmpty`: what to do about a database without tables. */
export function migrationsCheck(ifEmpty: string): Check<Database> {
  return {
    name: 'migrations',
    isRequired: true,
    run: async ({ direct }) => {
      const [known, applied] = [await migrationsIn(MIGRATIONS), await withTimeouts(direct, listMigrations)];
      if (applied === undefined) return [fail('the database has no tables of Halcyon', ifEmpty)];
      const { newer, changed, missing, replaced } = compare(known, applied);
      const tooOld = findTooOld(known, replaced);
      if (tooOld !== undefined) return [fail(tooOld.message, tooOld.remedy)];
      const differences = [
        [newer, 'the database is newer than this code: it has', 'Run the newer version'],
        [changed, 'changed after they were applied:', 'Restore the files, and put the change into a new migration'],
        [missing, 'not applied yet:', 'halcyon migrate applies them; read "Upgrading" in docs/operating.md first'],
      ] as const;
      const found = differences.filter(([some]) => some.length > 0);
      return orOk(
        found.map(([some, what, advice]) => fail(`${what} ${some.map(({ name }) => name).join(', ')}`, advice)),
        `all ${known.length} are applied`,
      );
    },
  };
}

/** Every process creates three days ahead, and checks once a minute. */
const REQUIRED_DAYS = 2;
/** One day more, because a partition may have been locked when it was due to be dropped. */
const GRACE_DAYS = 1;
const MANY_USED = 0.5;
const NEARLY_ALL_USED = 0.9;

const PARTITIONS = described({
  name: 'partitions',
  read: partitionsOf,
  verdicts: (partitions, { config, clock }) => {
    if (partitions.length === 0) return [ok('none yet: the first start creates them')];
    const today = dayOf(clock.now());
    const hasAll = (day: number): boolean =>
      PARENTS.every((parent) =>
        partitions.some((one) => one.parent === parent && one.day === day && one.state === 'attached'),
      );
    const missing = Array.from({ length: REQUIRED_DAYS + 1 }, (_, at) => today + at).filter((day) => !hasAll(day));
    const oldest = today - config.database.retentionDays - GRACE_DAYS;
    const old = partitions.filter(({ day }) => day < oldest);
    const detached = partitions.filter(({ state, day }) => state !== 'attached' && day >= oldest);
    const found: Verdict[] = [];
    const advice = 'Every process creates them when it starts and once a minute: check that one runs, and its log';
    if (missing.includes(today)) found.push(fail('there is no table for today: nothing can be published', advice));
    else if (missing.length > 0)
      found.push(warn(`of the next ${REQUIRED_DAYS} days ${countOf(missing.length, 'day')} has no tables yet`, advice));
    if (old.length > 0) {
      const reason =
        'A day is kept while one of its deliveries is pending; otherwise a long transaction blocks it, see the log';
      const message = `${countOf(old.length, 'table')} of days older than RETENTION_DAYS (${old[0]?.name} …)`;
      found.push(warn(message, reason));
    }
    if (detached.length > 0) {
      const message = `${countOf(detached.length, 'table')} half attached or detached (${detached[0]?.name} …)`;
      found.push(warn(message, 'The next maintenance run finishes it; a long transaction may block it'));
    }
    return found;
  },
  well: () => `there are tables for today and the next ${REQUIRED_DAYS} days`,
});

/** The used share of the 2³⁰ numbers of a day, and sequences behind the ids of the tables, which would be given again. */
const NUMBERS = described({
  name: 'numbers',
  read: async (tx, { clock }) => {
    const day = dayOf(clock.now());
    return [await readUsedNumbers(tx, day), await listSequences(tx, day)] as const;
  },
  verdicts: ([shares, sequences]) => {
    const found = [...shares]
      .filter(([, share]) => share >= MANY_USED)
      .map(([of, share]) =>
        graded(
          { fail: share >= NEARLY_ALL_USED, warn: true },
          `${Math.floor(share * 100)} % of today's ids of ${of === 'event' ? 'events' : 'deliveries'} are used`,
          'At 100 % publishing is refused until midnight UTC; distribute the stores over two installations',
        ),
      );
    for (const { name, used, newest } of sequences) {
      if (newest === null || newest <= (used ?? -1)) continue;
      const message = `the sequence ${name} is at ${used ?? 'its start'}, but a row has the number ${newest}: new rows get ids that exist`;
      found.push(fail(message, `In psql, while no process runs: select setval('${name}', ${newest})`));
    }
    return found;
  },
  well: () => `less than ${MANY_USED * 100} % of today's ids are used`,
});

/** A sample is enough to detect a wrong key. */
const SAMPLE_ROWS = 20;
const OTHERS_MODE = 0o077;
/** No key has this id, so every row counts as sealed with another key. */
const NO_KEY = Buffer.alloc(0);

/** `readable`: the key files that other users can read. */
type FoundKeys = { keys: Keys | undefined; from: string; readable: string[] };

async function findKeys({ secretKeys, dataDir }: Config): Promise<FoundKeys> {
  if (secretKeys !== undefined) return { keys: secretKeys, from: 'HALCYON_SECRET_KEY', readable: [] };
  const files = await findKeyFiles(dataDir);
  const readable: string[] = [];
  for (const { path } of files) if (((await stat(path)).mode & OTHERS_MODE) !== 0) readable.push(path);
  const [first, ...others] = files.map(({ key }) => key);
  return { keys: first && [first, ...others], from: files[0]?.path ?? dataDir, readable };
}

/** Returns the names of the sampled secrets that no key opens. */
async function findUnopened({ direct }: Database, keys: Keys): Promise<{ checked: number; names: string[] }> {
  const sealer = createSealer(...keys);
  const rows = await createKeyVault(direct).page({ keyId: NO_KEY, after: undefined, limitRows: SAMPLE_ROWS });
  const names = rows.flatMap(({ boundTo, envelopes }) => {
    try {
      for (const envelope of envelopes) if (envelope !== null) sealer.open(envelope, boundTo);
      return [];
    } catch {
      return [boundTo];
    }
  });
  return { checked: rows.length, names };
}

const KEY: Check<Database> = {
  name: 'key',
  run: async (place) => {
    const { keys, from, readable } = await findKeys(place.config);
    const databaseKeyId = await withTimeouts(place.direct, readSealingKey);
    if (keys === undefined) {
      const message = `there is no key in ${from}, but the database is sealed with one`;
      return [
        databaseKeyId === undefined
          ? ok('none yet: the first start creates one')
          : fail(message, 'Restore the file secret-key'),
      ];
    }
    const found = readable.map((path) => fail(`others on this machine can read ${path}`, `chmod 600 ${path}`));
    if (databaseKeyId !== undefined && !keys.some((key) => keyIdOf(key).equals(databaseKeyId))) {
      const advice =
        'Restore the original key; without it every webhook needs a new encryption_key and its url and headers again ("Change the key" in docs/operating.md)';
      return [...found, fail(`the database is sealed with another key than ${from}`, advice)];
    }
    const { checked, names } = await findUnopened(place, keys);
    if (names.length > 0) {
      const message = `${countOf(names.length, 'secret')} cannot be opened (${names[0]} …)`;
      found.push(fail(message, 'halcyon rekey lists them all with a remedy'));
    }
    if (databaseKeyId !== undefined && !keyIdOf(keys[0]).equals(databaseKeyId))
      found.push(warn('secrets are still sealed with the other key', 'halcyon rekey reseals them'));
    return found.length > 0 ? found : [ok(`${from} opens the secrets (${countOf(checked, 'webhook')} checked)`)];
  },
};

/**
 * Returns the seconds that the clock of a database is ahead of this machine's, inexact by half of the round trip. Throws if the clock
 * cannot be read.
 */
export async function readSecondsAhead(tx: Queryable, { clock }: Pick<Database, 'clock'>): Promise<number> {
  const before = clock.now().getTime();
  const at = await readDatabaseTime(tx);
  const seconds = (Number(at) - (before + clock.now().getTime()) / 2) / 1_000;
  if (Number.isFinite(seconds)) return seconds;
  throw new Error('the clock of the database cannot be read');
}

/** Receivers reject signatures older than five minutes, and days are wrong near midnight. */
const CLOCK_SECONDS = { warn: 2, fail: 60 };
/** The alert threshold in docs/operating.md. */
const OLD_SECONDS = 300;
const IDLE_SECONDS = 60;
const WAITING_SECONDS = 10;

const CLOCKS = described({
  name: 'clocks',
  read: readSecondsAhead,
  verdicts: (ahead) => {
    const seconds = Math.abs(ahead);
    const message = `the clocks of this machine and the database are ${seconds.toFixed(1)} s apart`;
    const is = { fail: seconds > CLOCK_SECONDS.fail, warn: seconds > CLOCK_SECONDS.warn };
    return [graded(is, message, 'Synchronise both by NTP (timedatectl set-ntp true)')];
  },
});

const TRANSACTIONS = described({
  name: 'transactions',
  read: async (tx) => [await readTransactionAges(tx), await listStuckSessions(tx, true, IDLE_SECONDS)] as const,
  verdicts: ([{ oldestSeconds }, idle]) => {
    const found = idle.map(({ pid, name, seconds }) =>
      warn(
        `"${name}" (${pid}) has been idle in a transaction for ${spanOf(seconds)}`,
        `End it in that program, or: select pg_terminate_backend(${pid}). It prevents the removal of deleted rows`,
      ),
    );
    const oldest = graded(
      { fail: false, warn: oldestSeconds > OLD_SECONDS },
      `the oldest has been open for ${spanOf(oldestSeconds)}`,
      'It prevents the removal of deleted rows, which slows everything down: find its session in pg_stat_activity',
    );
    return found.length > 0 && oldest.state === 'ok' ? found : [...found, oldest];
  },
});

const LOCKS = described({
  name: 'locks',
  read: (tx) => listStuckSessions(tx, false, WAITING_SECONDS),
  verdicts: (waiting) =>
    waiting.map(({ pid, name, seconds, blockers }) =>
      warn(
        `"${name}" (${pid}) has waited for ${spanOf(seconds)} for a lock that ${blockers.join(', ') || 'a prepared transaction'} holds`,
        blockers.length > 0
          ? `If that session hangs: select pg_terminate_backend(${blockers[0]})`
          : 'Check pg_prepared_xacts, and roll back abandoned transactions',
      ),
    ),
  well: () => `no session has waited for longer than ${spanOf(WAITING_SECONDS)}`,
});

/** A worker is alive if its heartbeat counter rises between two reads; clocks are not compared. */
const BEATS = 2;
const watchMs = ({ config }: Database): number => BEATS * config.delivery.beatMs;
/** Shares of workers differ by at most one shard, and by more only while shards move. */
const UNEVEN = 1.5;

function aliveWorkers(before: readonly WorkerRow[], after: readonly WorkerRow[]): Set<number> {
  const beats = new Map(before.map(({ id, beat }) => [id, beat]));
  return new Set(after.filter(({ id, beat }) => beats.get(id) !== beat).map(({ id }) => id));
}

const WORKERS: Check<Database> = {
  name: 'workers',
  waitsMs: watchMs,
  run: async (place) => {
    // Quiet workers send heartbeats again.
    await announceWorking(place.direct);
    const [before] = await withTimeouts(place.direct, look);
    await delay(watchMs(place));
    const [after, leases] = await withTimeouts(place.direct, look);
    const alive = aliveWorkers(before, after);
    const shards = leases.length;
    if (shards === 0) return [ok('this database owns no shards')];
    const silent = after.length - alive.size;
    if (alive.size === 0) {
      const suffix = silent === 0 ? '' : `: ${countOf(silent, 'worker')} without a heartbeat`;
      const advice = 'Start one: halcyon serve, or halcyon deliver. Accepted events wait meanwhile';
      return [warn(`no worker delivers${suffix}`, advice)];
    }
    const counts = [...alive].map((id) => leases.filter(({ owner }) => owner === id).length);
    const served = counts.reduce((sum, count) => sum + count, 0);
    const others = silent === 0 ? '' : `, and ${countOf(silent, 'other')} without a heartbeat`;
    const message = `${countOf(alive.size, 'worker')} with ${served} of ${shards} shards${others}`;
    const advice =
      'Run this again: shards of a stopped worker are taken within seconds. Otherwise see the log of a worker';
    if (served < shards) return [warn(message, advice)];
    const fair = shards / alive.size;
    if (!counts.some((count) => count > UNEVEN * fair + 1 || count < fair / UNEVEN - 1)) return [ok(message)];
    const shares = counts.toSorted((a, b) => a - b).join(', ');
    return [warn(`${message}, unevenly: ${shares}`, 'Run this again: workers rebalance within seconds')];
  },
};

/** A command that one person waits for reads more webhooks than a page that renews itself. */
const WEBHOOKS_PER_SHARD = 400;
const BACKLOG_SECONDS = { warn: 60, fail: 600 };

const BACKLOG = described({
  name: 'backlog',
  read: async (tx, { clock }) => {
    const now = clock.now();
    return { now, ...(await readBacklog(tx, now, WEBHOOKS_PER_SHARD)) };
  },
  verdicts: ({ now, pending, isEstimate, due, dueSince, held, ended }) => {
    const seconds = dueSince === null ? 0 : (now.getTime() - dueSince.getTime()) / 1_000;
    const wait = dueSince === null ? '' : `, the oldest for ${spanOf(seconds)}`;
    const counts = `${countOf(due, 'webhook')} with due ones${wait}; ${held} wait for their endpoints, ${ended} ended`;
    const advice =
      'Start more workers (halcyon deliver), or find the reason in their logs and in halcyon_delivery_backlog_age_seconds';
    const is = { fail: seconds > BACKLOG_SECONDS.fail, warn: seconds > BACKLOG_SECONDS.warn };
    const message = `${isEstimate ? 'about ' : ''}${countOf(pending, 'delivery', 'deliveries')} pending; ${counts}`;
    return [graded(is, message, advice)];
  },
});

const WEBHOOKS = described({
  name: 'webhooks',
  read: countWebhooks,
  verdicts: ({ active, inactive, failing }) => {
    // A few failing webhooks concern their owners; more than half indicates a local cause: network, name server, certificate.
    const is = { fail: false, warn: active > 1 && failing > active / 2 };
    const advice = 'More than half fail: check that this machine reaches the internet, and the attempts in the log';
    return [graded(is, `${active} active, of which ${failing} fail; ${inactive} disabled`, advice)];
  },
});

const NAMED_EVENTS_MAX = 5;

const EVENTS = described({
  name: 'events',
  read: (tx) => countSubscribers(tx, allEvents()),
  verdicts: (removed) => {
    if (removed.length === 0) {
      const types = mappedTypes();
      const shapes = types.length === 0 ? '' : `; MAPPING_FILE maps ${types.join(', ')}`;
      return [ok(`${countOf(allEvents().length, 'event')} can be subscribed to${shapes}`)];
    }
    const named = removed
      .slice(0, NAMED_EVENTS_MAX)
      .map(({ event, webhooks }) => `${event} (${countOf(webhooks, 'webhook')})`);
    const more = removed.length > named.length ? ` and ${removed.length - named.length} more` : '';
    const advice = 'Declare them in EVENTS_FILE again, or ask the stores to change these webhooks';
    return [warn(`webhooks subscribe to events that do not exist: ${named.join(', ')}${more}`, advice)];
  },
});

const PLATFORM_STORE = described({
  name: 'platform_store',
  read: async (tx, { config }) => {
    const { platformStore } = config.stores;
    return {
      platformStore,
      exists:
        platformStore !== undefined && (await hasStore(tx, { shard: shardOf(platformStore), storeId: platformStore })),
    };
  },
  verdicts: ({ platformStore, exists }) => {
    if (platformStore === undefined || exists) return [];
    const advice = 'Set PLATFORM_STORE to the id of a store, or remove it. The events wait for 30 days';
    return [fail(`there is no store ${platformStore}: the events for the operator are not published`, advice)];
  },
  well: ({ platformStore }) =>
    platformStore === undefined ? 'no store is sent the events for the operator' : `it is store ${platformStore}`,
});

/** Retention runs every minute and deletes rows a day after they expire. */
const OVERDUE_HOURS = 48;

const HOUSEKEEPING = described({
  name: 'housekeeping',
  read: async (tx) => [...(await listOldestExpired(tx)), await findOldestPublishKey(tx)],
  verdicts: (dates, { clock }) => {
    const now = clock.now().getTime();
    const hours = Math.max(...dates.map((at) => (at === undefined ? 0 : now - at.getTime()))) / 3_600_000;
    if (hours <= OVERDUE_HOURS) return [];
    const message = `rows that expired ${spanOf(hours * 3_600)} ago are not deleted yet`;
    return [warn(message, 'halcyon serve deletes them once a minute: check that one runs, and its log')];
  },
  well: () => 'expired rows are deleted in time',
});

const MIB = 1024 ** 2;
/** The server keeps all WAL that a slot has not confirmed, until its disk is full. */
const RETAINED_MIB = { warn: 1024, fail: 16 * 1024 };

const SLOTS = described({
  name: 'slots',
  read: listSlots,
  verdicts: (slots) => {
    const found = slots.map(({ name, isActive, isLost, retainedBytes }) => {
      const advice = `Start its standby or subscription, or select pg_drop_replication_slot('${name}') if there is none; a slot of an ended halcyon shards move is dropped by --abort`;
      if (isLost) return fail(`the slot ${name} has lost WAL: its standby or subscription cannot continue`, advice);
      const message = `the slot ${name} is ${isActive ? 'active' : 'inactive'} and retains ${Math.ceil(retainedBytes / MIB)} MiB of WAL`;
      const is = {
        fail: retainedBytes > RETAINED_MIB.fail * MIB,
        warn: !isActive || retainedBytes > RETAINED_MIB.warn * MIB,
      };
      return graded(is, message, advice);
    });
    return found.filter(({ state }) => state !== 'ok');
  },
  well: ({ length }) => `${length} replication slots, none behind`,
});

/** The checks that require the schema of this version. */
export const TABLE_CHECKS: readonly Check<Database>[] = [
  PARTITIONS,
  NUMBERS,
  KEY,
  CLOCKS,
  TRANSACTIONS,
  LOCKS,
  WORKERS,
  BACKLOG,
  WEBHOOKS,
  EVENTS,
  PLATFORM_STORE,
  HOUSEKEEPING,
  SLOTS,
];
