/** Parts of statements about webhooks: what an app sees of them, and what they lack. `app` is the app that calls, null for people and the platform. */
import type { Fragment, Queryable } from '#db/pool.ts';

/** The condition that the caller sees the webhook `w`: an app sees no webhook that another app declares. */
export function seenBy(sql: Queryable, app: number | null): Fragment {
  return app === null ? sql`` : sql`and (not w.is_for_app or w.client = ${app})`;
}

/** The condition that the caller sees the deliveries of the webhook `w`, if it exists; the same as `seesHistory` of webhook-access.ts. */
export function historySeenBy(sql: Queryable, app: number | null): Fragment {
  return app === null
    ? sql``
    : sql`and (w.event_resource is distinct from 'app' or w.is_for_app and w.client = ${app})`;
}

/** A store, and the app that calls (null: none). */
export type SeenStore = { shard: number; storeId: number; app: number | null };

/** The setting without which a webhook is sent nothing. */
export type Lack = 'events' | 'url';

export function lacking(sql: Queryable) {
  return sql`
  case when cardinality(w.events) = 0 then 'events' when w.url is null and not w.is_held then 'url' end`;
}
