/** Checks for database sessions that block others. */
import { readTransactionAges } from '#db/activity.ts';
import { ok, spanOf, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { withTimeouts, listIdleInTransaction, listWaitingForLocks } from '../doctor-sql.ts';

/** The alert threshold in docs/operating.md. */
const OLD_SECONDS = 300;
const IDLE_SECONDS = 60;
const WAITING_SECONDS = 10;

export async function checkTransactions({ direct }: DoctorContext, idleSeconds = IDLE_SECONDS): Promise<Finding[]> {
  const [ages, idle] = await withTimeouts(
    direct,
    async (tx) => [await readTransactionAges(tx), await listIdleInTransaction(tx, idleSeconds)] as const,
  );
  const found = idle.map(({ pid, name, seconds }) =>
    warn(
      'transactions',
      `"${name}" (${pid}) has been idle in a transaction for ${spanOf(seconds)}`,
      `End it in that program, or: select pg_terminate_backend(${pid}). It prevents the removal of deleted rows`,
    ),
  );
  const message = `the oldest has been open for ${spanOf(ages.oldestSeconds)}`;
  if (ages.oldestSeconds > OLD_SECONDS) {
    const advice =
      'It prevents the removal of deleted rows, which slows everything down: find its session in pg_stat_activity';
    found.push(warn('transactions', message, advice));
  }
  return found.length > 0 ? found : [ok('transactions', message)];
}

export async function checkLocks({ direct }: DoctorContext, waitingSeconds = WAITING_SECONDS): Promise<Finding[]> {
  const waiting = await withTimeouts(direct, (tx) => listWaitingForLocks(tx, waitingSeconds));
  if (waiting.length === 0) return [ok('locks', `no session has waited for longer than ${spanOf(waitingSeconds)}`)];
  return waiting.map(({ pid, name, seconds, blockers }) =>
    warn(
      'locks',
      `"${name}" (${pid}) has waited for ${spanOf(seconds)} for a lock that ${blockers.join(', ') || 'a prepared transaction'} holds`,
      blockers.length > 0
        ? `If that session hangs: select pg_terminate_backend(${blockers[0]})`
        : 'Check pg_prepared_xacts, and roll back abandoned transactions',
    ),
  );
}
