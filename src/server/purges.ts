/**
 * Everything that expires, in the order of deletion. docs/operating.md has it as a table. Each database deletes its own rows of stores,
 * and the home database those of accounts.
 */
import { createAccountPurges } from '#identity/accounts/accounts.ts';
import type { Config } from '#config/config.ts';
import type { Log } from '#core/log.ts';
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#db/purges.ts';
import { createDeliveryPurges } from '#delivery/purges.ts';
import { blankAnswers } from '#delivery/record/erase-sql.ts';
import type { EventCaches } from '#events/erase/chain.ts';
import { createErasurePurges } from '#events/erase/purges.ts';
import { createErasedStorePurges, createEventPurges, TABLES_OF_STORES } from '#events/purges-sql.ts';
import { createIdempotencyPurges } from '#http/idempotency/idempotency.ts';
import type { RevocationEffects } from '#identity/oauth/grant-changes.ts';
import { createOAuthPurges } from '#identity/oauth/oauth-purges-sql.ts';
import type { EachDatabase } from '#shards/each.ts';
import { createStorePurges, createInvitationPurges } from '#stores/purges-sql.ts';
import { createUnattendedPurge } from '#webhooks/pull/unattended.ts';
import { createDeclarationPurges, createWebhookPurges } from '#webhooks/purges-sql.ts';
import { announceChanges } from './publishing.ts';

type Deps = Pick<RevocationEffects, 'changelog'> & {
  config: Pick<Config, 'housekeeping' | 'database' | 'pull'>;
  sql: Sql;
  log: Log;
  caches: EventCaches;
};

export function purgesOfStores({ config, sql, log, caches, changelog }: Deps): readonly Purge[] {
  const { housekeeping, database, pull } = config;
  return [
    ...createIdempotencyPurges({ sql }),
    ...createErasurePurges({ sql, log, caches, blankAnswers }),
    ...createEventPurges({ sql, retentionDays: database.retentionDays }),
    ...createErasedStorePurges({ sql }),
    ...createWebhookPurges({ sql }),
    createUnattendedPurge({ sql, changelog, announce: announceChanges, ...pull }),
    ...createDeliveryPurges({ sql, hoursKeptDays: housekeeping.webhookHoursKeptDays }),
    // After the rows of erased stores.
    ...createStorePurges({ sql, tables: TABLES_OF_STORES }),
  ];
}

/** `ofStores`: the purges of stores that are in the home database. */
export function purgesOfHome({
  config: { housekeeping },
  sql,
  each,
  changelog,
  accessChanged,
  ofStores,
}: Pick<Deps, 'config' | 'sql'> & RevocationEffects & { each: EachDatabase; ofStores: readonly Purge[] }): Purge[] {
  return [
    ...createOAuthPurges({ sql, kept: housekeeping, changelog, accessChanged }),
    ...ofStores,
    ...createDeclarationPurges({ sql, each }),
    ...createInvitationPurges({ sql }),
    ...createAccountPurges({ sql, auditKeptDays: housekeeping.auditKeptDays }),
  ];
}
