/** Who is in the way of others in the database. */
import { readTransactionAges } from '#db/activity.ts';
import { ok, spanOf, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { briefly, listIdleInTransaction, listWaitingForLocks } from '../doctor-sql.ts';

/** As docs/operating.md says when to wake somebody. */
const OLD_SECONDS = 300;
const IDLE_SECONDS = 60;
const WAITING_SECONDS = 10;

export const checkTransactions = async ({ direct }: DoctorContext, idleSeconds = IDLE_SECONDS): Promise<Finding[]> => {
  const [ages, idle] = await briefly(
    direct,
    async (tx) => [await readTransactionAges(tx), await listIdleInTransaction(tx, idleSeconds)] as const,
  );
  const found = idle.map(({ pid, name, seconds }) =>
    warn(
      'transactions',
      `"${name}" (${pid}) has a transaction open and does nothing for ${spanOf(seconds)}`,
      `End it there, or: select pg_terminate_backend(${pid}). It keeps deleted rows from being removed`,
    ),
  );
  const told = `the oldest is open for ${spanOf(ages.oldestSeconds)}`;
  if (ages.oldestSeconds > OLD_SECONDS) {
    const advice =
      'It keeps deleted rows from being removed, and everything gets slower: see pg_stat_activity who it is';
    found.push(warn('transactions', told, advice));
  }
  return found.length > 0 ? found : [ok('transactions', told)];
};

export const checkLocks = async ({ direct }: DoctorContext, waitingSeconds = WAITING_SECONDS): Promise<Finding[]> => {
  const waiting = await briefly(direct, (tx) => listWaitingForLocks(tx, waitingSeconds));
  if (waiting.length === 0) return [ok('locks', `nobody waits for longer than ${spanOf(waitingSeconds)}`)];
  return waiting.map(({ pid, name, seconds, blockers }) =>
    warn(
      'locks',
      `"${name}" (${pid}) waits for ${spanOf(seconds)} for what ${blockers.join(', ') || 'a prepared transaction'} holds`,
      blockers.length > 0
        ? `If that one hangs: select pg_terminate_backend(${blockers[0]})`
        : 'See pg_prepared_xacts, and roll back what nobody ends',
    ),
  );
};
