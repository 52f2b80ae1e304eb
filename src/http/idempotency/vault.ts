/** Answers that are kept for their repetition, as what is sealed anew when HALCYON_SECRET_KEY changes. */
import type { Sql } from '#db/pool.ts';
import type { Vault } from '#db/reseal.ts';
import { answerBoundTo } from './key.ts';
import { countSealedOtherwise, listSealedOtherwise, renewAnswers } from './idempotency-sql.ts';

export const createAnswerVault = (sql: Sql): Vault => ({
  name: 'answers',
  count: (keyId) => countSealedOtherwise(sql, keyId),
  page: async ({ keyId, after = '', limitRows }) => {
    const rows = await listSealedOtherwise(sql, { keyId, after: Buffer.from(after, 'hex'), limitRows });
    return rows.map(({ scope, answer }) => ({
      id: scope.toString('hex'),
      boundTo: answerBoundTo(scope),
      envelopes: [answer],
    }));
  },
  replace: async (rows) => {
    const written = await renewAnswers(
      sql,
      rows.map(({ id, envelopes: [before = null], renewed: [after = null] }) => {
        return { scope: Buffer.from(id, 'hex'), before, after };
      }),
    );
    return written.map((scope) => scope.toString('hex'));
  },
});
