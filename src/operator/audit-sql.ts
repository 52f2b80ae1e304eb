/** SQL of the acts of operators, of commands and of programs of the platform, among all entries of the audit. */
import { oneOf, type Queryable } from '#db/pool.ts';

/** What the acts concern; all acts if all are null. `userId`: the person concerned, or the operator who acted. */
export type Concerned = { storeId: number | null; client: number | null; userId: number | null };

/** A person, an app or a store has a null name if it was erased, and a null id if the act concerns none. */
export type ActRow = {
  id: number;
  action: string;
  dateCreated: Date;
  reason: string | null;
  operatorId: number | null;
  operator: string | null;
  /** The program of the platform that acted. */
  program: string | null;
  userId: number | null;
  email: string | null;
  clientId: string | null;
  app: string | null;
  storeId: number | null;
  store: string | null;
};

/** The condition of the index `audit_acts`. */
const acts = (sql: Queryable, { storeId, client, userId }: Concerned) => sql`
  audit a where ((a.address is null and a.action <> 'grant_retired') or a.detail ? 'by_client'
    or (a.client is not null and a.action in ('user_created', 'user_erased', 'email_changed')))
    and (${storeId}::bigint is null or a.store_id = ${storeId})
    and (${client}::bigint is null or a.client = ${client} or a.detail->>'by_client' = ${client}::bigint::text)
    and (${userId}::bigint is null or a.user_id = ${userId} or a.detail->>'operator' = ${userId}::bigint::text)`;

/** Returns a page of the acts, the newest first. */
export async function listActs(
  sql: Queryable,
  concerned: Concerned,
  { offset, limit }: { offset: number; limit: number },
): Promise<ActRow[]> {
  return sql<ActRow[]>`
  select a.id, a.action, a.date_created as "dateCreated", a.detail->>'reason' as reason, o.id as "operatorId", o.email as operator,
    p.name as program, a.user_id as "userId", u.email, coalesce(a.detail->>'client_id', c.client_id) as "clientId",
    coalesce(a.detail->>'name', c.name) as app, a.store_id as "storeId", coalesce(s.name, a.detail->>'store') as store
  from (select a.* from ${acts(sql, concerned)} order by a.id desc offset ${offset} limit ${limit}) as a
  left join users o on o.id = (a.detail->>'operator')::bigint
  left join client p on p.id = case when starts_with(a.action, 'client_') then (a.detail->>'by_client')::bigint else a.client end
  left join users u on u.id = a.user_id
  left join client c on c.id = a.client and starts_with(a.action, 'client_')
  left join store s on s.shard = a.store_id % 256 and s.id = a.store_id
  order by a.id desc`;
}

export async function countActs(sql: Queryable, concerned: Concerned): Promise<number> {
  return (await oneOf(sql<{ total: number }[]>`select count(*) as total from ${acts(sql, concerned)}`)).total;
}
