/**
 * Rotation of a client's secret: the new one counts at once, and the one before it goes on for a while, so that whoever
 * runs the app can put the new one in place without a moment in which none works. What a secret was promised it keeps,
 * also through further rotations: which of them the app uses, nobody here knows.
 */
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { notFound, Problem } from '#core/problem.ts';
import { recordClientEntry, type Doer } from '../action.ts';
import { createToken } from '../../tokens.ts';
import { endRetired, insertSecret, listSecrets, lockConfidential, retireSecrets } from './secrets-sql.ts';

const HOUR_MS = 3_600_000;
const MARK_BYTES = 8;
/** That count at the same time. */
const SECRETS_MAX = 5;

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

const conflict = (code: string, message: string): Problem => new Problem(409, { code, message });

/** Of a double click the browser shows the second answer alone: it says how to get at a secret after all. */
const REPLACED_ALREADY =
  'A new secret was made already, in another tab or by a double click. If you have not got it, make another one below: ' +
  'what your app uses now goes on for as long as it was given';
const TOO_MANY = `At most ${SECRETS_MAX} secrets count at a time; end the older ones first, or at once with this one`;

/**
 * Makes a new secret; it is in the answer and nowhere else. The current one ends after `overlapHours`; 0 ends all others
 * now. Throws a 404 where there is no such confidential client, and a 409: `secret_rotated` where the current one is no
 * longer the one to be replaced (of two forms at once, the later answer could show the secret that ends first),
 * `limit_reached` where as many count as may.
 */
export const rotateSecret = async (sql: Sql, rotation: Rotation, doer: Doer): Promise<string> => {
  const { now } = doer;
  const secret = createToken('clientSecret');
  const until = new Date(now.getTime() + rotation.overlapHours * HOUR_MS);
  await transaction(sql, async (tx) => {
    const client = await lockConfidential(tx, rotation.clientId, now);
    if (client === undefined) throw notFound('confidential client');
    const live = await secretsOf(tx, client.id, now);
    if (rotation.replacing !== undefined && rotation.replacing !== live[0]?.mark)
      throw conflict('secret_rotated', REPLACED_ALREADY);
    if (live.length >= SECRETS_MAX && until > now) throw conflict('limit_reached', TOO_MANY);
    await retireSecrets(tx, client.id, { until, now });
    await insertSecret(tx, client.id, secret.hash, now);
    const detail = { name: client.name, older_until: until.toISOString() };
    await recordClientEntry(tx, 'client_secret_rotated', client, { ...doer, detail });
  });
  return secret.value;
};

/** Ends the secrets that rotations left some time. Throws a 404 where there is no such confidential client. */
export const endOlderSecret = (sql: Sql, clientId: string, doer: Doer): Promise<void> =>
  transaction(sql, async (tx) => {
    const { now } = doer;
    const client = await lockConfidential(tx, clientId, now);
    if (client === undefined) throw notFound('confidential client');
    if ((await endRetired(tx, client.id, now)) === 0) return;
    const detail = { name: client.name, older_until: now.toISOString() };
    await recordClientEntry(tx, 'client_secret_rotated', client, { ...doer, detail });
  });
