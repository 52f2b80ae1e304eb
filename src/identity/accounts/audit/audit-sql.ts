/** SQL of the audit. Writes the table audit; account-handlers.ts purges its expired rows. */
import type { Queryable } from '#db/pool.ts';
import type { Action, AuditEntry, Origin } from './audit.ts';

export async function insertAuditEntry(sql: Queryable, entry: AuditEntry): Promise<void> {
  const { action, userId, client = null, storeId = null, origin, detail = {}, now } = entry;
  await sql`
    insert into audit (id, action, user_id, client, store_id, address, user_agent, detail, date_created)
    values (nextval('id_n'), ${action}, ${userId}, ${client}, ${storeId}, ${origin?.address ?? null},
      ${origin?.userAgent ?? null}, ${sql.json(detail)}, ${now})
  `;
}

export type AuditRow = {
  id: number;
  action: string;
  /** The name of the app concerned: the name recorded in the entry, otherwise the current name. */
  app: string | null;
  address: string | null;
  userAgent: string | null;
  dateCreated: Date;
};

/**
 * Actions that a stranger who knows the e-mail address, or the password, can cause. Performed by the operator (no address), they are
 * listed like other entries.
 */
const TRIES = ['sign_in_failed', 'password_reset_requested', 'second_factor_failed'] satisfies Action[];

/** Returns the audit entries of a user except TRIES, latest first; with `before`, only those older than that entry. */
export function latestAuditEntries(
  sql: Queryable,
  { userId, before, limit }: { userId: number; before: number | undefined; limit: number },
): Promise<AuditRow[]> {
  return sql<AuditRow[]>`
  select a.id, a.action, coalesce(a.detail->>'client', a.detail->>'name', c.name) as app,
    a.address, a.user_agent as "userAgent", a.date_created as "dateCreated"
  from audit a left join client c on c.id = a.client
  where a.user_id = ${userId} and a.id < ${before ?? Number.MAX_SAFE_INTEGER}
    and (a.action <> all(${TRIES}) or a.address is null)
  order by a.id desc limit ${limit}
`;
}

/** Returns the places from which a user has signed in, of the latest `limit` entries. */
export function listSignIns(sql: Queryable, userId: number, limit: number): Promise<Origin[]> {
  return sql<Origin[]>`
  select distinct address, user_agent as "userAgent"
  from (
    select action, address, user_agent from audit where user_id = ${userId} order by id desc limit ${limit}
  ) as latest
  where action = 'signed_in' and address is not null
`;
}

export type TriesRow = Omit<AuditRow, 'id' | 'app'> & { times: number };

/** Returns the number of TRIES of each kind since a time, with the latest of each. */
export function countTries(sql: Queryable, userId: number, since: Date): Promise<TriesRow[]> {
  return sql<TriesRow[]>`
  select distinct on (action) action, address, user_agent as "userAgent", date_created as "dateCreated",
    count(*) over (partition by action)::int as times
  from audit
  where user_id = ${userId} and action = any(${TRIES}) and address is not null and date_created > ${since}
  order by action desc, id desc
`;
}
