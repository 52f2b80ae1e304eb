/** The clock of this machine beside that of the database. */
import { fail, ok, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { briefly, readDatabaseTime } from '../doctor-sql.ts';

/** Measured with the way there and back, so half of that is in it. */
const APART_SECONDS = 2;
/** Signatures older than five minutes are refused by receivers, and days are off near midnight. */
const FAR_APART_SECONDS = 60;

export const checkClocks = async ({ direct, clock }: DoctorContext): Promise<Finding[]> => {
  const before = clock.now().getTime();
  const there = await briefly(direct, readDatabaseTime);
  const here = (before + clock.now().getTime()) / 2;
  const seconds = there === undefined ? 0 : Math.abs(there.getTime() - here) / 1_000;
  const told = `this machine and the database are ${seconds.toFixed(1)} s apart`;
  const advice = 'Let both keep the time by NTP (timedatectl set-ntp true)';
  if (seconds > FAR_APART_SECONDS) return [fail('clocks', told, advice)];
  return [seconds > APART_SECONDS ? warn('clocks', told, advice) : ok('clocks', told)];
};
