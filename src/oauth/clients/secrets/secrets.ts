/**
 * Rotation of a client's secret: the new one counts at once, and the one before it goes on for a while, so that whoever
 * runs the app can put the new one in place without a moment in which none works. At most two count at any time.
 */
import { recordDeed } from '#accounts/audit/audit.ts';
import { transaction, type Queryable, type Sql } from '#database/pool.ts';
import { notFound, Problem } from '#kernel/problem.ts';
import type { Doer } from '../change.ts';
import { mintToken } from '../../tokens.ts';
import { endRetired, insertSecret, listSecrets, lockConfidential, retireSecrets } from './queries.ts';

const HOUR_MS = 3_600_000;
const MARK_BYTES = 8;

export type Secret = {
  /** Tells this secret from others and opens nothing: a piece of its hash. */
  mark: string;
  dateCreated: Date;
  /** When it ends; null for the current one. */
  dateExpires: Date | null;
};

/** The secrets that count now, the current one first; of a public client none. */
export const secretsOf = async (sql: Queryable, client: number, now: Date): Promise<Secret[]> => {
  const rows = await listSecrets(sql, client, now);
  return rows.map(({ hash, dateCreated, dateExpires }) => {
    const mark = hash.subarray(0, MARK_BYTES).toString('hex');
    return { mark, dateCreated, dateExpires };
  });
};

/** `replacing`: the mark of the secret that its caller saw as the current one. */
export type Rotation = { clientId: string; overlapHours: number; replacing?: string };

/**
 * Makes a new secret; it is in the answer and nowhere else. The current one ends after `overlapHours` (0: now), an older
 * one now. Throws a 404 where there is no such confidential client, and a 409 `secret_rotated` where the current one is
 * no longer the one to be replaced: of a double click, the second would end the secret that the app still uses.
 */
export const rotateSecret = async (sql: Sql, rotation: Rotation, { userId, origin, now }: Doer): Promise<string> => {
  const secret = mintToken('clientSecret');
  const currentUntil = new Date(now.getTime() + rotation.overlapHours * HOUR_MS);
  await transaction(sql, async (tx) => {
    const client = await lockConfidential(tx, rotation.clientId, now);
    if (client === undefined) throw notFound('confidential client');
    const [current] = await secretsOf(tx, client, now);
    if (rotation.replacing !== undefined && rotation.replacing !== current?.mark) {
      const message = 'A new secret was made since this page was opened, and no other was made now';
      throw new Problem(409, { code: 'secret_rotated', message });
    }
    await retireSecrets(tx, client, { currentUntil, now });
    await insertSecret(tx, client, secret.hash, now);
    const detail = { client_id: rotation.clientId, older_until: currentUntil.toISOString() };
    await recordDeed(tx, { action: 'client_secret_rotated', userId, client, origin, detail, now });
  });
  return secret.value;
};

/** Ends the secret that a rotation left some time. Throws a 404 where there is no such confidential client. */
export const endOlderSecret = (sql: Sql, clientId: string, { userId, origin, now }: Doer): Promise<void> =>
  transaction(sql, async (tx) => {
    const client = await lockConfidential(tx, clientId, now);
    if (client === undefined) throw notFound('confidential client');
    if ((await endRetired(tx, client, now)) === 0) return;
    const detail = { client_id: clientId, older_until: now.toISOString() };
    await recordDeed(tx, { action: 'client_secret_rotated', userId, client, origin, detail, now });
  });
