/** The tables: as this code knows them, and with a place for what comes in the next days. */
import { compare, migrationsIn, MIGRATIONS } from '#db/migrate.ts';
import { readUsedNumbers } from '#db/numbers.ts';
import { PARENTS, partitionsOf } from '#db/partitions.ts';
import { dayOf } from '#core/ids.ts';
import { countOf, fail, ok, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { briefly, listMigrations } from '../doctor-sql.ts';

const names = (some: readonly { name: string }[]): string => some.map(({ name }) => name).join(', ');

export const checkMigrations = async ({ direct }: DoctorContext): Promise<Finding[]> => {
  const [known, applied] = await Promise.all([migrationsIn(MIGRATIONS), briefly(direct, listMigrations)]);
  if (applied === undefined)
    return [fail('migrations', 'the database has no tables of Halcyon', 'halcyon migrate makes them')];
  const { newer, changed, missing } = compare(known, applied);
  const found: Finding[] = [];
  if (newer.length > 0)
    found.push(
      fail('migrations', `the database is newer than this code: it has ${names(newer)}`, 'Run the newer Halcyon'),
    );
  if (changed.length > 0) {
    const message = `changed after they were applied: ${names(changed)}`;
    found.push(fail('migrations', message, 'Restore the files, and put the change into a new one'));
  }
  if (missing.length > 0) {
    const advice = 'halcyon migrate applies them; read "Upgrading" in docs/operating.md first';
    found.push(fail('migrations', `not applied yet: ${names(missing)}`, advice));
  }
  return found.length > 0 ? found : [ok('migrations', `all ${known.length} are applied`)];
};

/** Every process makes three ahead, and looks once a minute. */
const DAYS_WANTED = 2;
/** A day of grace, for one that was locked when its time had come. */
const DAYS_OF_GRACE = 1;

export const checkPartitions = async ({ direct, config, clock }: DoctorContext): Promise<Finding[]> => {
  const partitions = await briefly(direct, partitionsOf);
  if (partitions.length === 0) return [ok('partitions', 'none yet: the first start makes them')];
  const today = dayOf(clock.now());
  const days = Array.from({ length: DAYS_WANTED + 1 }, (_, at) => today + at);
  const lacks = (day: number): boolean =>
    PARENTS.some(
      (parent) => !partitions.some((one) => one.parent === parent && one.day === day && one.state === 'attached'),
    );
  const missing = days.filter(lacks);
  const oldest = today - config.database.retentionDays - DAYS_OF_GRACE;
  const old = partitions.filter(({ day }) => day < oldest);
  const apart = partitions.filter(({ state, day }) => state !== 'attached' && day >= oldest);
  const found: Finding[] = [];
  const advice = 'Any process makes them when it starts and once a minute: see that one runs, and what its log says';
  if (missing.includes(today))
    found.push(fail('partitions', 'there is no table for today: nothing can be published', advice));
  else if (missing.length > 0)
    found.push(
      warn('partitions', `of the next ${DAYS_WANTED} days ${countOf(missing.length, 'day')} has no tables`, advice),
    );
  if (old.length > 0) {
    const message = `${countOf(old.length, 'table')} of days older than RETENTION_DAYS (${old[0]?.name} …)`;
    const why =
      'A day stays while a delivery of it is pending; otherwise a long transaction is in the way, and the log says so';
    found.push(warn('partitions', message, why));
  }
  if (apart.length > 0) {
    const message = `${countOf(apart.length, 'table')} half attached or detached (${apart[0]?.name} …)`;
    found.push(
      warn('partitions', message, 'The next run of any process finishes it; a long transaction may be in its way'),
    );
  }
  return found.length > 0 ? found : [ok('partitions', `there are tables for today and ${DAYS_WANTED} days more`)];
};

const MANY_USED = 0.5;
const NEARLY_ALL_USED = 0.9;

/** Ids of a day have room for 2³⁰ deliveries; without any left, publishing is refused until midnight UTC. */
export const checkNumbers = async ({ direct, clock }: DoctorContext): Promise<Finding[]> => {
  const used = await briefly(direct, (tx) => readUsedNumbers(tx, dayOf(clock.now())));
  const advice = 'At 100 % publishing is refused until midnight UTC; share the stores out over two installations';
  const found = [...used].flatMap(([of, share]): Finding[] => {
    const message = `${Math.floor(share * 100)} % of the numbers that ids of ${of === 'event' ? 'events' : 'deliveries'} have today are used`;
    if (share < MANY_USED) return [];
    return [share < NEARLY_ALL_USED ? warn('numbers', message, advice) : fail('numbers', message, advice)];
  });
  return found.length > 0 ? found : [ok('numbers', 'ids of today have room')];
};
