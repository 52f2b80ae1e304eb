/** The statements of the audit: the table audit is written here; what has had its time is deleted in identity/accounts/. */
import type { Queryable } from '#db/pool.ts';
import type { Action, AuditEntry } from './audit.ts';

export const insertAuditEntry = async (sql: Queryable, deed: AuditEntry): Promise<void> => {
  const { action, userId, client = null, storeId = null, origin, detail = {}, now } = deed;
  await sql`
    insert into audit (id, action, user_id, client, store_id, address, user_agent, detail, date_created)
    values (nextval('id_n'), ${action}, ${userId}, ${client}, ${storeId}, ${origin?.address ?? null},
      ${origin?.userAgent ?? null}, ${sql.json(detail)}, ${now})
  `;
};

export type AuditRow = {
  id: number;
  action: string;
  /** The name of the app that it is about: as it was then where that was written down, else as it is now. */
  app: string | null;
  address: string | null;
  userAgent: string | null;
  dateCreated: Date;
};

/** What anybody can make happen to an account who knows its address; by the operator they are a deed like others. */
const TRIES = ['sign_in_failed', 'password_reset_requested'] satisfies Action[];

/** What concerns a user, the latest first, without tries. `before`: only what is older than the entry of that id. */
export const latestAuditEntries = (
  sql: Queryable,
  { userId, before, limit }: { userId: number; before: number | undefined; limit: number },
): Promise<AuditRow[]> => sql<AuditRow[]>`
  select a.id, a.action, coalesce(a.detail->>'client', a.detail->>'name', c.name) as app,
    a.address, a.user_agent as "userAgent", a.date_created as "dateCreated"
  from audit a left join client c on c.id = a.client
  where a.user_id = ${userId} and a.id < ${before ?? Number.MAX_SAFE_INTEGER}
    and (a.action <> all(${TRIES}) or a.address is null)
  order by a.id desc limit ${limit}
`;

export type TriesRow = Omit<AuditRow, 'id' | 'app'> & { times: number };

/** How often each kind of try came since then, with the latest of each. */
export const countTries = (sql: Queryable, userId: number, since: Date): Promise<TriesRow[]> => sql<TriesRow[]>`
  select distinct on (action) action, address, user_agent as "userAgent", date_created as "dateCreated",
    count(*) over (partition by action)::int as times
  from audit
  where user_id = ${userId} and action = any(${TRIES}) and address is not null and date_created > ${since}
  order by action desc, id desc
`;
