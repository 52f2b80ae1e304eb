/**
 * `Idempotency-Key`: what is asked for twice is made once, also when both ask at the same moment, in two processes, or when
 * the process dies between the commit and the answer. The memory stands in the transaction of what was made.
 */
import { createHash, createHmac } from 'node:crypto';
import { transaction, type Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import type { Keys } from '#core/keys.ts';
import type { Purge } from '#core/purge.ts';
import { invalid, Problem } from '#core/problem.ts';
import type { Principal } from '#core/principal.ts';
import type { Made, Once } from '../operation.ts';
import { answerBoundTo, IDEMPOTENCY_KEPT_MS, IDEMPOTENCY_KEY_FORM, isIdempotencyKey } from './key.ts';
import { claimKey, findAnswer, keepAnswer, purgeKeys, type Kept } from './idempotency-sql.ts';

/** `fingerprintKeys`: bodies may hold secrets that can be guessed, so what is kept of them is an HMAC. */
export type IdempotencyDeps = { sql: Sql; sealer: Sealer; fingerprintKeys: Keys };

type Asked = {
  key: string | undefined;
  principal: Principal | null;
  method: string;
  path: string;
  contentType: string;
  bytes: Uint8Array;
  now: Date;
};

const readKey = (key: string): string => {
  if (isIdempotencyKey(key)) return key;
  const message = `Idempotency-Key ${IDEMPOTENCY_KEY_FORM}`;
  throw invalid({ code: 'invalid_header', message, field: 'Idempotency-Key' });
};

/** A charset that is named or not makes no other body. */
const bareTypeOf = (contentType: string): string => contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';

/** Who asks for what under which name: one caller never meets the answer of another. */
const scopeOf = (key: string, { principal, method, path }: Asked): Buffer =>
  createHash('sha256')
    .update(JSON.stringify([principal?.clientId, principal?.userId, method, path, key]))
    .digest();

/**
 * Those of one key in this process go one after the other and hold one connection of the pool between them. Others wait in
 * the database, at the key.
 */
const createTurns = () => {
  const turns = new Map<string, Promise<unknown>>();
  return async <T>(name: string, take: () => Promise<T>): Promise<T> => {
    const before = turns.get(name);
    const mine = (before ?? Promise.resolve()).then(take, take);
    turns.set(name, mine);
    try {
      return await mine;
    } finally {
      if (turns.get(name) === mine) turns.delete(name);
    }
  };
};

export const createOnce = ({ sql, sealer, fingerprintKeys }: IdempotencyDeps) => {
  const inTurn = createTurns();
  return (asked: Asked): Once => {
    const { key, now, contentType, bytes } = asked;
    if (key === undefined) return { before: async () => undefined, make: (make) => transaction(sql, make) };
    const scope = scopeOf(readKey(key), asked);
    const boundTo = answerBoundTo(scope);
    const hashWith = (fingerprintKey: Buffer): Buffer =>
      createHmac('sha256', fingerprintKey)
        .update(`${bareTypeOf(contentType)}\n`)
        .update(bytes)
        .digest();
    const bodyHash = hashWith(fingerprintKeys[0]);
    const staleAt = new Date(now.getTime() - IDEMPOTENCY_KEPT_MS);

    const again = (kept: Kept | undefined): Made | undefined => {
      if (kept === undefined) return undefined;
      if (fingerprintKeys.some((one) => kept.bodyHash.equals(hashWith(one))))
        return JSON.parse(sealer.open(kept.answer, boundTo)) as Made;
      const message = 'This Idempotency-Key was used for another body: take a new one for a new request';
      throw new Problem(422, { code: 'idempotency_key_reused', message, field: 'Idempotency-Key' });
    };

    return {
      before: async () => again(await findAnswer(sql, scope, staleAt)),
      make: (make) =>
        inTurn(boundTo, () =>
          transaction(sql, async (tx) => {
            if (!(await claimKey(tx, { scope, bodyHash, now, staleAt }))) {
              const present = again(await findAnswer(tx, scope, staleAt));
              if (present !== undefined) return present;
              throw new Error('An idempotency key that is taken has no answer');
            }
            const made = await make(tx);
            await keepAnswer(tx, scope, sealer.seal(JSON.stringify(made), boundTo));
            return made;
          }),
        ),
    };
  };
};

/** Keys that have had their day. */
export const createIdempotencyPurge = ({ sql }: { sql: Sql }): Purge => ({
  name: 'idempotency_keys',
  purge: (limit, now) => purgeKeys(sql, limit, new Date(now.getTime() - IDEMPOTENCY_KEPT_MS)),
});
