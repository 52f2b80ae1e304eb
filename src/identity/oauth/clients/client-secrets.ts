/**
 * Rotates client secrets. The new secret is valid immediately and the previous one for an overlap, so that the app can be
 * reconfigured without downtime. Further rotations do not shorten an overlap, because which secret the app uses is unknown.
 */
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { conflict, notFound } from '#core/problem.ts';
import { recordClientEntry, type ClientActor } from './action.ts';
import { createToken } from '../tokens.ts';
import { endRetired, insertSecret, listSecrets, lockConfidential, retireSecrets } from './clients-sql.ts';

const HOUR_MS = 3_600_000;
const FINGERPRINT_BYTES = 8;
/** Secrets of a client that are valid at the same time. */
const SECRETS_MAX = 5;

export type Secret = {
  /** The beginning of the secret's hash, which identifies the secret and grants no access. */
  fingerprint: string;
  dateCreated: Date;
  /** The expiry; null for the current secret. */
  dateExpires: Date | null;
};

/** Returns the valid secrets, the current one first; empty for a public client. */
export async function secretsOf(sql: Queryable, client: number, now: Date): Promise<Secret[]> {
  const rows = await listSecrets(sql, client, now);
  return rows.map(({ hash, dateCreated, dateExpires }) => {
    const fingerprint = hash.subarray(0, FINGERPRINT_BYTES).toString('hex');
    return { fingerprint, dateCreated, dateExpires };
  });
}

/** `replacing`: the fingerprint of the current secret when the caller read it. */
type Rotation = { clientId: string; overlapHours: number; replacing?: string };

/** After a double click the browser shows only the second response, so this text explains how to get a secret. */
const REPLACED_ALREADY =
  'A new secret was already created, in another tab or by a double click. If you do not have it, create another one ' +
  'below: the secret that your app uses now stays valid until its expiry';
const TOO_MANY = `At most ${SECRETS_MAX} secrets can be valid at a time: expire the older secrets first, or create the new one without an overlap`;

/**
 * Creates a new secret and returns it; only its hash is stored. The current secret expires after `overlapHours`; 0 expires
 * all others immediately. Throws a 404 if there is no such confidential client, a 409 `secret_rotated` if the secret to be
 * replaced is no longer current (of two concurrent forms, the later response could show the secret that expires first), and
 * a 409 `limit_reached` for too many valid secrets.
 */
export async function rotateSecret(sql: Sql, rotation: Rotation, actor: ClientActor): Promise<string> {
  const { now } = actor;
  const secret = createToken('clientSecret');
  const until = new Date(now.getTime() + rotation.overlapHours * HOUR_MS);
  await transaction(sql, async (tx) => {
    const client = await lockConfidential(tx, rotation.clientId, now);
    if (client === undefined) throw notFound('confidential client');
    const live = await secretsOf(tx, client.id, now);
    if (rotation.replacing !== undefined && rotation.replacing !== live[0]?.fingerprint)
      throw conflict('secret_rotated', REPLACED_ALREADY);
    if (live.length >= SECRETS_MAX && until > now) throw conflict('limit_reached', TOO_MANY);
    await retireSecrets(tx, client.id, { until, now });
    await insertSecret(tx, client.id, secret.hash, now);
    const detail = { name: client.name, older_until: until.toISOString() };
    await recordClientEntry(tx, 'client_secret_rotated', client, { ...actor, detail });
  });
  return secret.value;
}

/** Expires the older secrets of a client now. Throws a 404 if there is no such confidential client. */
export function endOlderSecret(sql: Sql, clientId: string, actor: ClientActor): Promise<void> {
  return transaction(sql, async (tx) => {
    const { now } = actor;
    const client = await lockConfidential(tx, clientId, now);
    if (client === undefined) throw notFound('confidential client');
    if ((await endRetired(tx, client.id, now)) === 0) return;
    const detail = { name: client.name, older_until: now.toISOString() };
    await recordClientEntry(tx, 'client_secret_rotated', client, { ...actor, detail });
  });
}
