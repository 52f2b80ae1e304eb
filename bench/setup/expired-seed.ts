/** Expired rows, as many as years without deletion would leave. */
import type { Sql } from '#db/pool.ts';
import type { SeededClient } from './token-seed.ts';

/** Access tokens that expired long ago, of all grants in turn. */
export async function seedExpiredTokens(sql: Sql, count: number): Promise<void> {
  await sql`
    with grants as (select array_agg(id) as ids from access_grant)
    insert into access_token (hash, grant_id, date_expires)
    select sha256(int8send(n)), ids[1 + n % cardinality(ids)], now() - interval '30 days' + n * interval '1 second'
    from grants, generate_series(1, ${count}::bigint) as n
  `;
}

/** Codes that expired unused, each with the grant that goes with it: the dearest rows there are to delete. */
export async function seedExpiredCodes(sql: Sql, client: SeededClient, count: number): Promise<void> {
  await sql`
    with made as (
      insert into access_grant (id, client, user_id, scope, store_id, date_created)
      select nextval('id_n'), ${client.id}, ${client.userId}, 'store_full_access', ${client.storeId},
        now() - interval '30 days'
      from generate_series(1, ${count}::bigint)
      returning id
    )
    insert into authorization_code (hash, grant_id, redirect_uri, date_expires)
    select sha256('code ' || int8send(id)), id, 'https://app.example.com/callback',
      now() - interval '30 days' + id * interval '1 millisecond'
    from made
  `;
}

/** As autovacuum will, but now, so that it does not come in the middle of something. */
export async function settle(sql: Sql): Promise<void> {
  await sql`vacuum analyze access_token, authorization_code, access_grant, refresh_token`;
  await sql`checkpoint`;
}
