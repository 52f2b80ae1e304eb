/** Lists the stored responses for re-encryption after a change of HALCYON_SECRET_KEY. */
import type { Sql } from '#db/pool.ts';
import type { Vault } from '#db/seal.ts';
import { responseBoundTo } from './idempotency.ts';
import { countSealedWithOtherKey, listSealedWithOtherKey, replaceResponses } from './idempotency-sql.ts';

export function createAnswerVault(sql: Sql): Vault {
  return {
    name: 'answers',
    count: (keyId) => countSealedWithOtherKey(sql, keyId),
    page: async ({ keyId, after = '', limitRows }) => {
      const rows = await listSealedWithOtherKey(sql, { keyId, after: Buffer.from(after, 'hex'), limitRows });
      return rows.map(({ scope, answer }) => ({
        id: scope.toString('hex'),
        boundTo: responseBoundTo(scope),
        envelopes: [answer],
      }));
    },
    replace: async (rows) => {
      const written = await replaceResponses(
        sql,
        rows.map(({ id, envelopes: [before = null], renewed: [after = null] }) => {
          return { scope: Buffer.from(id, 'hex'), before, after };
        }),
      );
      return written.map((scope) => scope.toString('hex'));
    },
  };
}
