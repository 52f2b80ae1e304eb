/** Checks of the schema (migrations, partitions for the next days, unused id numbers) and of the key of its secrets. */
import { stat } from 'node:fs/promises';
import { compare, findTooOld, migrationsIn, MIGRATIONS } from '#db/migrate.ts';
import { readUsedNumbers } from '#db/numbers.ts';
import { PARENTS, partitionsOf } from '#db/partitions.ts';
import { dayOf } from '#core/ids.ts';
import { createSealer, keyIdOf, readSealingKey } from '#db/seal.ts';
import type { Keys } from '#core/keys.ts';
import { createKeyVault } from '#webhooks/webhook-vault.ts';
import type { Config } from '#config/config.ts';
import { countOf, fail, ok, warn, type Finding, type DoctorContext } from '../finding.ts';
import { listSequences } from '../databases-sql.ts';
import { withTimeouts, listMigrations } from '../doctor-sql.ts';
import { findKeyFiles } from '../../key-file.ts';

// Checks the key of secrets at rest: it is the key of the database, opens the secrets, and is readable only by its owner.

/** A sample is enough to detect a wrong key. */
const SAMPLE_ROWS = 20;
const OTHERS_MODE = 0o077;
/** No key has this id, so every row counts as sealed with another key. */
const NO_KEY = Buffer.alloc(0);

async function findKeys(config: Config): Promise<{ keys: Keys | undefined; from: string; findings: Finding[] }> {
  if (config.secretKeys !== undefined) return { keys: config.secretKeys, from: 'HALCYON_SECRET_KEY', findings: [] };
  const files = await findKeyFiles(config.dataDir);
  const findings: Finding[] = [];
  for (const { path } of files) {
    const { mode } = await stat(path);
    if ((mode & OTHERS_MODE) !== 0)
      findings.push(fail('key', `others on this machine can read ${path}`, `chmod 600 ${path}`));
  }
  const [first, ...others] = files.map(({ key }) => key);
  return { keys: first && [first, ...others], from: files[0]?.path ?? config.dataDir, findings };
}

/** Returns the names of the sampled secrets that no key opens. */
async function findUnopened({ direct }: DoctorContext, keys: Keys): Promise<{ checked: number; names: string[] }> {
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

export async function checkKey(context: DoctorContext): Promise<Finding[]> {
  const { keys, from, findings } = await findKeys(context.config);
  const databaseKeyId = await withTimeouts(context.direct, readSealingKey);
  if (keys === undefined) {
    if (databaseKeyId === undefined) return [ok('key', 'none yet: the first start creates one')];
    return [
      fail('key', `there is no key in ${from}, but the database is sealed with one`, 'Restore the file secret-key'),
    ];
  }
  if (databaseKeyId !== undefined && !keys.some((key) => keyIdOf(key).equals(databaseKeyId))) {
    const advice =
      'Restore the original key; without it every webhook needs a new encryption_key and its url and headers again ("Change the key" in docs/operating.md)';
    return [...findings, fail('key', `the database is sealed with another key than ${from}`, advice)];
  }
  const { checked, names } = await findUnopened(context, keys);
  if (names.length > 0) {
    const advice = 'halcyon rekey lists them all with a remedy';
    findings.push(fail('key', `${countOf(names.length, 'secret')} cannot be opened (${names[0]} …)`, advice));
  }
  if (databaseKeyId !== undefined && !keyIdOf(keys[0]).equals(databaseKeyId))
    findings.push(warn('key', 'secrets are still sealed with the other key', 'halcyon rekey reseals them'));
  return findings.length > 0
    ? findings
    : [ok('key', `${from} opens the secrets (${countOf(checked, 'webhook')} checked)`)];
}

const names = (some: readonly { name: string }[]): string => some.map(({ name }) => name).join(', ');

/** `ifEmpty`: what to do about a database without tables. */
export async function checkMigrations(
  { direct }: DoctorContext,
  ifEmpty = 'halcyon migrate creates them',
): Promise<Finding[]> {
  const [known, applied] = await Promise.all([migrationsIn(MIGRATIONS), withTimeouts(direct, listMigrations)]);
  if (applied === undefined) return [fail('migrations', 'the database has no tables of Halcyon', ifEmpty)];
  const { newer, changed, missing, replaced } = compare(known, applied);
  const tooOld = findTooOld(known, replaced);
  if (tooOld !== undefined) return [fail('migrations', tooOld.message, tooOld.remedy)];
  const found: Finding[] = [];
  if (newer.length > 0)
    found.push(
      fail('migrations', `the database is newer than this code: it has ${names(newer)}`, 'Run the newer version'),
    );
  if (changed.length > 0) {
    const message = `changed after they were applied: ${names(changed)}`;
    found.push(fail('migrations', message, 'Restore the files, and put the change into a new migration'));
  }
  if (missing.length > 0) {
    const advice = 'halcyon migrate applies them; read "Upgrading" in docs/operating.md first';
    found.push(fail('migrations', `not applied yet: ${names(missing)}`, advice));
  }
  return found.length > 0 ? found : [ok('migrations', `all ${known.length} are applied`)];
}

/** Every process creates three days ahead, and checks once a minute. */
const REQUIRED_DAYS = 2;
/** One day more, because a partition may have been locked when it was due to be dropped. */
const GRACE_DAYS = 1;

export async function checkPartitions({ direct, config, clock }: DoctorContext): Promise<Finding[]> {
  const partitions = await withTimeouts(direct, partitionsOf);
  if (partitions.length === 0) return [ok('partitions', 'none yet: the first start creates them')];
  const today = dayOf(clock.now());
  const days = Array.from({ length: REQUIRED_DAYS + 1 }, (_, at) => today + at);
  const lacks = (day: number): boolean =>
    PARENTS.some(
      (parent) => !partitions.some((one) => one.parent === parent && one.day === day && one.state === 'attached'),
    );
  const missing = days.filter(lacks);
  const oldest = today - config.database.retentionDays - GRACE_DAYS;
  const old = partitions.filter(({ day }) => day < oldest);
  const detached = partitions.filter(({ state, day }) => state !== 'attached' && day >= oldest);
  const found: Finding[] = [];
  const advice = 'Every process creates them when it starts and once a minute: check that one runs, and its log';
  if (missing.includes(today))
    found.push(fail('partitions', 'there is no table for today: nothing can be published', advice));
  else if (missing.length > 0)
    found.push(
      warn(
        'partitions',
        `of the next ${REQUIRED_DAYS} days ${countOf(missing.length, 'day')} has no tables yet`,
        advice,
      ),
    );
  if (old.length > 0) {
    const message = `${countOf(old.length, 'table')} of days older than RETENTION_DAYS (${old[0]?.name} …)`;
    const reason =
      'A day is kept while one of its deliveries is pending; otherwise a long transaction blocks it, see the log';
    found.push(warn('partitions', message, reason));
  }
  if (detached.length > 0) {
    const message = `${countOf(detached.length, 'table')} half attached or detached (${detached[0]?.name} …)`;
    found.push(warn('partitions', message, 'The next maintenance run finishes it; a long transaction may block it'));
  }
  return found.length > 0 ? found : [ok('partitions', `there are tables for today and the next ${REQUIRED_DAYS} days`)];
}

const MANY_USED = 0.5;
const NEARLY_ALL_USED = 0.9;

/** Checks that no sequence is behind the ids of the tables, which would be given again. */
async function findUsedAgain({ direct, clock }: DoctorContext): Promise<Finding[]> {
  const sequences = await withTimeouts(direct, (tx) => listSequences(tx, dayOf(clock.now())));
  return sequences.flatMap(({ name, used, newest }) => {
    if (newest === null || newest <= (used ?? -1)) return [];
    const message = `the sequence ${name} is at ${used ?? 'its start'}, but a row has the number ${newest}: new rows get ids that exist`;
    return [fail('numbers', message, `In psql, while no process runs: select setval('${name}', ${newest})`)];
  });
}

/** Checks the sequences of ids, and the used share of the 2³⁰ numbers of a day; when all are used, publishing is refused until midnight UTC. */
export async function checkNumbers(context: DoctorContext): Promise<Finding[]> {
  const { direct, clock } = context;
  const used = await withTimeouts(direct, (tx) => readUsedNumbers(tx, dayOf(clock.now())));
  const advice = 'At 100 % publishing is refused until midnight UTC; distribute the stores over two installations';
  const shares = [...used].flatMap(([of, share]): Finding[] => {
    const message = `${Math.floor(share * 100)} % of today's ids of ${of === 'event' ? 'events' : 'deliveries'} are used`;
    if (share < MANY_USED) return [];
    return [share < NEARLY_ALL_USED ? warn('numbers', message, advice) : fail('numbers', message, advice)];
  });
  const found = [...shares, ...(await findUsedAgain(context))];
  return found.length > 0 ? found : [ok('numbers', `less than ${MANY_USED * 100} % of today's ids are used`)];
}
