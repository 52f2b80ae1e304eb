/**
 * Encrypts secrets at rest with AES-256-GCM, bound to their row, so that an envelope cannot be moved to another row. A database stores the
 * id of the key that it is sealed with, which each start checks.
 *
 * After a change of the key secrets are resealed while all processes run: page by page in primary key order, with an update only if the row
 * has not changed. Rows under the current key are skipped, so a run continues an interrupted one.
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

/** A row with its sealed secrets, all bound to the same name. */
type SealedRow = { id: string; boundTo: string; envelopes: readonly (Buffer | null)[] };
type Replacement = SealedRow & { renewed: readonly (Buffer | null)[] };

/** The sealed secrets of one module. */
export type Vault = {
  name: string;
  /** Returns the number of rows with an envelope of another key than this one. */
  count: (keyId: Buffer) => Promise<number>;
  /** Returns the next page of those rows, in primary key order. */
  page: (request: { keyId: Buffer; after: string | undefined; limitRows: number }) => Promise<SealedRow[]>;
  /**
   * Writes `renewed` if the row still has `envelopes` and is not locked, and returns the ids of the written rows. No other column
   * changes.
   */
  replace: (rows: readonly Replacement[]) => Promise<string[]>;
};

export type Resealed = {
  /** Resealed rows by the name of the vault. */
  counts: ReadonlyMap<string, number>;
  /** Names of rows with secrets that no key opens; they stay unchanged. */
  unopened: readonly string[];
  /** Rows that another process sealed with another key after this run had passed them. */
  late: number;
  /** `incomplete`: rows stayed locked, or changed in every round. */
  end: 'done' | 'incomplete' | 'stopped';
};

type ResealOptions = {
  key: Buffer;
  /** Opens with all keys and seals with `key`. */
  sealer: Sealer;
  pause: () => Promise<void>;
  isStopped: () => boolean;
  onPage: (rows: number) => void;
};

/** A page of stored responses may have a few MB; a page of keys takes a few ms. */
const PAGE_ROWS = 200;
/** Limits the rounds that look for rows that were locked or changed. */
const ROUNDS_MAX = 25;

type Renewal = { boundTo: string; replacement: Replacement | undefined; isComplete: boolean };

/** Reseals the envelopes of a row that can be opened; the others stay unchanged. */
function renew(sealer: Sealer, row: SealedRow): Renewal {
  let [isComplete, changes] = [true, false];
  const renewed = row.envelopes.map((envelope) => {
    if (envelope === null || sealer.isCurrent(envelope)) return envelope;
    try {
      const sealed = sealer.seal(sealer.open(envelope, row.boundTo), row.boundTo);
      changes = true;
      return sealed;
    } catch {
      isComplete = false;
      return envelope;
    }
  });
  return { boundTo: row.boundTo, replacement: changes ? { ...row, renewed } : undefined, isComplete };
}

async function* pagesOf(vault: Vault, { key, isStopped }: ResealOptions): AsyncGenerator<SealedRow[]> {
  let after: string | undefined;
  while (!isStopped()) {
    const rows = await vault.page({ keyId: keyIdOf(key), after, limitRows: PAGE_ROWS });
    if (rows.length > 0) yield rows;
    if (rows.length < PAGE_ROWS) return;
    after = rows.at(-1)?.id;
  }
}

/** Reseals all vaults. Ends with `done` only after a round that found nothing to do except rows that no key opens. */
export async function reseal(vaults: readonly Vault[], options: ResealOptions): Promise<Resealed> {
  const counts = new Map<string, number>();
  const unopened = new Set<string>();
  let late = 0;
  /** Rows of the previous round that were found but not written, by their `boundTo`; undefined in the first round. */
  let unwritten: Set<string> | undefined;
  const result = (end: Resealed['end']): Resealed => ({ counts, unopened: [...unopened], late, end });

  /** Processes all vaults once; returns whether there was nothing to do. */
  const round = async (): Promise<boolean> => {
    const unwrittenNow = new Set<string>();
    let found = 0;
    for (const vault of vaults) {
      for await (const rows of pagesOf(vault, options)) {
        const renewals = rows.map((row) => renew(options.sealer, row));
        for (const { boundTo, isComplete } of renewals) if (!isComplete) unopened.add(boundTo);
        const replacements = renewals.flatMap(({ replacement }) => replacement ?? []);
        const written = new Set(replacements.length === 0 ? [] : await vault.replace(replacements));
        for (const { id, boundTo } of replacements) {
          if (!written.has(id)) unwrittenNow.add(boundTo);
          if (unwritten?.has(boundTo) === false) late += 1;
        }
        found += replacements.length;
        counts.set(vault.name, (counts.get(vault.name) ?? 0) + written.size);
        options.onPage(written.size);
      }
    }
    unwritten = unwrittenNow;
    return found === 0;
  };

  for (let rounds = 0; rounds < ROUNDS_MAX; rounds += 1) {
    if (rounds > 1) await options.pause();
    const isClean = await round();
    if (options.isStopped()) return result('stopped');
    if (isClean) return result('done');
  }
  return result('incomplete');
}
