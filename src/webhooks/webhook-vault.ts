/** The secrets of webhooks, and of their past versions, that are sealed again when HALCYON_SECRET_KEY changes. */
import type { Sql } from '#db/pool.ts';
import type { Vault } from '#db/seal.ts';
import { shardOf } from '#core/ids.ts';
import { sealBinding } from './webhook-access.ts';
import {
  countSealedWithOtherKey,
  countVersionsOfOtherKey,
  listSealedWithOtherKey,
  listVersionsOfOtherKey,
  replaceSealed,
  replaceVersions,
} from './webhook-vault-sql.ts';

function keyOf(text: string): { shard: number; id: number } {
  const id = Number(text);
  return { shard: shardOf(id), id };
}

/** Sorts before every webhook. */
const BEFORE_ALL = { shard: -1, id: 0 };

export function createKeyVault(sql: Sql): Vault {
  return {
    name: 'webhooks',
    count: (keyId) => countSealedWithOtherKey(sql, keyId),
    page: async ({ keyId, after, limitRows }) => {
      const start = after === undefined ? BEFORE_ALL : keyOf(after);
      const rows = await listSealedWithOtherKey(sql, { keyId, after: start, limitRows });
      return rows.map(({ id, key, next, request }) => {
        return { id: String(id), boundTo: sealBinding(id), envelopes: [key, next, request] };
      });
    },
    replace: async (rows) => {
      const written = await replaceSealed(
        sql,
        rows.map(({ id, envelopes, renewed }) => {
          const [key = null, next = null, request = null] = envelopes;
          const [keyAfter = null, nextAfter = null, requestAfter = null] = renewed;
          return { ...keyOf(id), key, next, request, keyAfter, nextAfter, requestAfter };
        }),
      );
      return written.map(String);
    },
  };
}

const nameOfVersion = ({ webhookId, revision }: { webhookId: number; revision: number }): string =>
  `${webhookId}-${revision}`;

function versionOf(name: string): { shard: number; webhookId: number; revision: number } {
  const [webhookId = 0, revision = 0] = name.split('-').map(Number);
  return { shard: shardOf(webhookId), webhookId, revision };
}

export function createVersionVault(sql: Sql): Vault {
  return {
    name: 'versions of webhooks',
    count: (keyId) => countVersionsOfOtherKey(sql, keyId),
    page: async ({ keyId, after, limitRows }) => {
      const start = after === undefined ? { shard: -1, webhookId: 0, revision: 0 } : versionOf(after);
      const rows = await listVersionsOfOtherKey(sql, { keyId, after: start, limitRows });
      return rows.map((row) => {
        return { id: nameOfVersion(row), boundTo: sealBinding(row.webhookId), envelopes: [row.request] };
      });
    },
    replace: async (rows) => {
      const versions = rows.map(({ id, envelopes: [request = null], renewed: [after = null] }) => {
        return { ...versionOf(id), request, after };
      });
      return (await replaceVersions(sql, versions)).map(nameOfVersion);
    },
  };
}
