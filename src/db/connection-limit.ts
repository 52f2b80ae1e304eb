/** Divides the connections that the server allows. */
import { UnusableError, type Sql } from './pool.ts';

/** Share of the server's connections for the processes of one supervisor; the rest is for other programs and commands. */
const SHARE = 3 / 4;
/** The smallest pool: one transaction, and the statements beside it. */
const POOL_MIN = 2;

/**
 * Returns the pool size of each process: `wanted`, or less if the server allows too few connections. `others` is the number of
 * connections that a process has beside its pool. Throws if the server does not even allow the smallest pools.
 */
export async function connectionsOfEach(
  sql: Sql,
  processes: number,
  { wanted, others }: { wanted: number; others: number },
): Promise<number> {
  const [row] = await sql<{ allowed: number }[]>`
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as allowed`;
  if (row === undefined) throw new Error('The database returned no limit of connections');
  const { allowed } = row;
  const each = Math.min(wanted, Math.floor((allowed * SHARE) / processes) - others);
  if (each >= POOL_MIN) return each;
  throw new UnusableError(
    `PostgreSQL allows ${allowed} connections, too few for ${processes} processes`,
    `lower PROCESSES to ${Math.max(1, Math.floor((allowed * SHARE) / (POOL_MIN + others)))} or raise max_connections`,
    undefined,
  );
}
