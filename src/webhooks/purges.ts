/** What webhooks leave behind in time. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { moveKeys } from './purges-sql.ts';

/** Keys that a rotation has ended. They count for nothing from that moment on, and go so that no back-up keeps them. */
export const createWebhookPurges = ({ sql }: { sql: Sql }): readonly Purge[] => [
  { name: 'rotated_keys', purge: (limit, now) => moveKeys(sql, now, limit) },
];
