/** Compares the clock of this machine with that of the database. */
import { readDatabaseTime } from '#db/database-clock.ts';
import { fail, ok, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { withTimeouts } from '../doctor-sql.ts';

/** The measurement includes half of the round trip. */
const WARN_SECONDS = 2;
/** Receivers reject signatures older than five minutes, and days are wrong near midnight. */
const FAIL_SECONDS = 60;

export async function checkClocks({ direct, clock }: DoctorContext): Promise<Finding[]> {
  const before = clock.now().getTime();
  const databaseTime = await withTimeouts(direct, readDatabaseTime);
  const localMs = (before + clock.now().getTime()) / 2;
  const seconds = Math.abs(databaseTime.getTime() - localMs) / 1_000;
  const message = `the clocks of this machine and the database are ${seconds.toFixed(1)} s apart`;
  const advice = 'Synchronise both by NTP (timedatectl set-ntp true)';
  if (seconds > FAIL_SECONDS) return [fail('clocks', message, advice)];
  return [seconds > WARN_SECONDS ? warn('clocks', message, advice) : ok('clocks', message)];
}
