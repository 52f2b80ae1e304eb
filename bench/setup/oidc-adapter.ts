/**
 * oidc-provider's storage over PostgreSQL, as quick as one statement a call can be: one table with the id as its key, the
 * statements prepared, the payload as jsonb, and the indexes that revoking a grant and purging what has expired need.
 */
import type { Adapter, AdapterFactory, AdapterPayload } from 'oidc-provider';
import type { Sql } from '#db/pool.ts';

type Row = { payload: AdapterPayload; consumed: number | null };

export async function createTables(sql: Sql): Promise<void> {
  await sql`
    create table oidc_payload (
      id           text primary key,
      kind         text not null,
      payload      jsonb not null,
      grant_id     text,
      date_expires timestamptz,
      consumed     bigint
    )
  `;
  await sql`create index oidc_payload_grant on oidc_payload (grant_id) where grant_id is not null`;
  await sql`create index oidc_payload_expires on oidc_payload (date_expires) where date_expires is not null`;
}

const notUsed = (what: string) => async (): Promise<undefined> => {
  throw new Error(`${what} is not part of this bench`);
};

export function createAdapter(sql: Sql): AdapterFactory {
  return (kind): Adapter => ({
    upsert: async (id, payload, expiresInSeconds) => {
      const expires = expiresInSeconds === undefined ? null : new Date(Date.now() + expiresInSeconds * 1_000);
      await sql`
        insert into oidc_payload (id, kind, payload, grant_id, date_expires)
        values (${id}, ${kind}, ${sql.json(payload)}, ${payload.grantId ?? null}, ${expires})
        on conflict (id) do update set payload = excluded.payload, date_expires = excluded.date_expires
      `;
    },
    find: async (id) => {
      const [row] = await sql<Row[]>`select payload, consumed from oidc_payload where id = ${id} and kind = ${kind}`;
      if (row === undefined) return undefined;
      return row.consumed === null ? row.payload : { ...row.payload, consumed: row.consumed };
    },
    consume: async (id) => {
      await sql`update oidc_payload set consumed = ${Math.floor(Date.now() / 1_000)} where id = ${id}`;
    },
    destroy: async (id) => {
      await sql`delete from oidc_payload where id = ${id}`;
    },
    revokeByGrantId: async (grantId) => {
      await sql`delete from oidc_payload where grant_id = ${grantId} and kind = ${kind}`;
    },
    findByUid: notUsed('A session'),
    findByUserCode: notUsed('A device'),
  });
}
