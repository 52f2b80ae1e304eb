/** The secrets of webhooks, and of their past versions, that are sealed again when HALCYON_SECRET_KEY changes. */
import type { Sql } from '#db/pool.ts';
import type { Vault } from '#db/seal.ts';
import { vaultOf } from '#db/sealed-tables.ts';
import { sealBinding } from './webhook-access.ts';

export function createKeyVault(sql: Sql): Vault {
  return vaultOf(sql, {
    name: 'webhooks',
    seals: 'webhook',
    key: { shard: 'smallint', id: 'bigint' },
    columns: ['encryption_key', 'next_encryption_key', 'request_secrets'],
    boundTo: ({ id }) => sealBinding(id),
  });
}

export function createVersionVault(sql: Sql): Vault {
  return vaultOf(sql, {
    name: 'versions of webhooks',
    seals: 'webhook_version',
    key: { shard: 'smallint', webhook_id: 'bigint', revision: 'integer' },
    columns: ['request_secrets'],
    boundTo: ({ webhook_id: id }) => sealBinding(id),
  });
}
