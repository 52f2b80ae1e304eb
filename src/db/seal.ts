/**
 * Encrypts secrets at rest with AES-256-GCM, bound to their row, so that an envelope cannot be moved to another row. A database stores the
 * id of the key that it is sealed with, which each start checks.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import { DatabaseError, type Queryable, type Sql } from './pool.ts';

export type Sealer = {
  /** Encrypts the text. `boundTo` names the row, such as `webhook:512`; `open` needs the same name. */
  seal: (text: string, boundTo: string) => Buffer;
  /** Decrypts the envelope; throws if none of the keys sealed it, it belongs to another row, or a bit was changed. */
  open: (sealed: Buffer, boundTo: string) => string;
  /** Returns whether the envelope names the key that `seal` uses. */
  isCurrent: (sealed: Buffer) => boolean;
};

const VERSION = 1;
const KEY_ID_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEAD_BYTES = 1 + KEY_ID_BYTES;

/** Returns an id that identifies a key without revealing it. */
export function keyIdOf(key: Buffer): Buffer {
  return createHash('sha256').update(key).digest().subarray(0, KEY_ID_BYTES);
}

const headOf = (key: Buffer): Buffer => Buffer.concat([Buffer.of(VERSION), keyIdOf(key)]);

/**
 * Returns a sealer that seals with the first key and opens with any. The envelope is version · key id · nonce · ciphertext · tag;
 * the key id selects the key.
 */
export function createSealer(...keys: Keys): Sealer {
  const [key] = keys;
  const head = headOf(key);
  const heads = keys.map((one) => ({ key: one, head: headOf(one) }));
  const settings = keys.length > 1 ? 'HALCYON_SECRET_KEY and HALCYON_SECRET_KEY_OTHER' : 'HALCYON_SECRET_KEY';
  const keyOf = (sealed: Buffer): Buffer | undefined =>
    heads.find((one) => one.head.equals(sealed.subarray(0, HEAD_BYTES)))?.key;
  return {
    seal: (text, boundTo) => {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(boundTo));
      return Buffer.concat([head, nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    },
    open: (sealed, boundTo) => {
      const usedKey = keyOf(sealed);
      if (usedKey === undefined)
        throw new Error(`The secret of ${boundTo} is sealed with another key than ${settings}`);
      const nonce = sealed.subarray(HEAD_BYTES, HEAD_BYTES + NONCE_BYTES);
      const decipher = createDecipheriv('aes-256-gcm', usedKey, nonce, { authTagLength: TAG_BYTES }).setAAD(
        Buffer.from(boundTo),
      );
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      const text = decipher.update(sealed.subarray(HEAD_BYTES + NONCE_BYTES, -TAG_BYTES));
      return Buffer.concat([text, decipher.final()]).toString('utf8');
    },
    isCurrent: (sealed) => keyOf(sealed) === key,
  };
}

/** Returns the id of the key that the database is sealed with; undefined before the first start. */
export async function readSealingKey(sql: Queryable): Promise<Buffer | undefined> {
  const [row] = await sql<{ keyId: Buffer }[]>`select key_id as "keyId" from sealing_key`;
  return row?.keyId;
}

/**
 * Returns whether the migrated database is sealed with the first key; false if it is another of the keys, until `halcyon rekey`
 * has run. Throws a `DatabaseError` if it is none of them; the first process to check sets the key of the database. `from`
 * describes the source of the keys to an operator.
 */
export async function checkSealingKey(sql: Sql, { keys, from }: { keys: Keys; from: string }): Promise<boolean> {
  const [key, ...others] = keys;
  const id = keyIdOf(key);
  await sql`insert into sealing_key (key_id) values (${id}) on conflict do nothing`;
  const databaseKeyId = await readSealingKey(sql);
  const isDatabaseKey = (one: Buffer): boolean => databaseKeyId?.equals(keyIdOf(one)) === true;
  if (isDatabaseKey(key)) return true;
  if (others.some(isDatabaseKey)) return false;
  throw new DatabaseError(
    `${from} is another key than the secrets in this database are sealed with: restore the original key`,
  );
}

/** Makes this key the key of the database, so that no process without it starts. Requires that all secrets are sealed with it. */
export async function adoptSealingKey(sql: Sql, key: Buffer): Promise<void> {
  await sql`update sealing_key set key_id = ${keyIdOf(key)}`;
}
