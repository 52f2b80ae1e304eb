/** Checks of replication slots: the server keeps all WAL that a slot has not confirmed, until its disk is full. */
import { fail, ok, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { listSlots } from '../databases-sql.ts';
import { withTimeouts } from '../doctor-sql.ts';

const MIB = 1024 ** 2;
const RETAINED_WARN_BYTES = 1024 * MIB;
const RETAINED_FAIL_BYTES = 16 * 1024 * MIB;

export async function checkSlots({ direct }: DoctorContext): Promise<Finding[]> {
  const slots = await withTimeouts(direct, listSlots);
  const found = slots.flatMap(({ name, isActive, isLost, retainedBytes }): Finding[] => {
    const advice = `Start its standby or subscription, or select pg_drop_replication_slot('${name}') if there is none; a slot of an ended halcyon shards move is dropped by --abort`;
    if (isLost)
      return [fail('slots', `the slot ${name} has lost WAL: its standby or subscription cannot continue`, advice)];
    const message = `the slot ${name} is ${isActive ? 'active' : 'inactive'} and retains ${Math.ceil(retainedBytes / MIB)} MiB of WAL`;
    if (retainedBytes > RETAINED_FAIL_BYTES) return [fail('slots', message, advice)];
    return !isActive || retainedBytes > RETAINED_WARN_BYTES ? [warn('slots', message, advice)] : [];
  });
  return found.length > 0 ? found : [ok('slots', `${slots.length} replication slots, none behind`)];
}
