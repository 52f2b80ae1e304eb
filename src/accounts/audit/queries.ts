/** The statements of the audit: the table audit is written here; what has had its time is deleted in housekeeping/. */
import type { Queryable } from '#database/pool.ts';
import type { Deed } from './audit.ts';

export const insertDeed = async (sql: Queryable, deed: Deed): Promise<void> => {
  const { action, userId, client = null, storeId = null, origin, detail = {}, now } = deed;
  await sql`
    insert into audit (id, action, user_id, client, store_id, address, user_agent, detail, date_created)
    values (nextval('id_n'), ${action}, ${userId}, ${client}, ${storeId}, ${origin?.address ?? null},
      ${origin?.userAgent ?? null}, ${sql.json(detail)}, ${now})
  `;
};

export type DeedRow = { action: string; address: string | null; userAgent: string | null; dateCreated: Date };

/** What concerns a user, the latest first. */
export const latestDeeds = (sql: Queryable, userId: number, limit: number): Promise<DeedRow[]> => sql<DeedRow[]>`
  select action, address, user_agent as "userAgent", date_created as "dateCreated"
  from audit where user_id = ${userId}
  order by id desc limit ${limit}
`;
