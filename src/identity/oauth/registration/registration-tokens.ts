/**
 * Registration tokens (the initial access token of RFC 7591 §1.2): permit the registration of clients until they expire.
 */
import { recordAuditEntry } from '#identity/accounts/audit/audit.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { createToken, hashToken, looksLike } from '../tokens.ts';
import { deleteRegistrationToken, insertRegistrationToken, isRegistrationToken } from './registration-sql.ts';

const DAY_MS = 86_400_000;
const MARK_BYTES = 8;

/** Returns the id of a token for the audit: the beginning of its hash, in hex. It grants no access. */
const idOfHash = (hash: Buffer): string => hash.subarray(0, MARK_BYTES).toString('hex');

/** Returns the id of a token, by which it appears in the audit and can be revoked. */
export function idOfInvitation(token: string): string {
  return idOfHash(hashToken(token));
}

/** Creates a registration token. Only its hash is stored. */
export function createRegistrationToken(sql: Sql, { days, now }: { days: number; now: Date }): Promise<string> {
  return transaction(sql, async (tx) => {
    const { value, hash } = createToken('registrationToken');
    await insertRegistrationToken(tx, { hash, now, expires: new Date(now.getTime() + days * DAY_MS) });
    const detail = { registration_token: idOfHash(hash), days };
    await recordAuditEntry(tx, { action: 'registration_token_created', userId: null, origin: null, detail, now });
    return value;
  });
}

/** Returns the id of a valid token; undefined if it is unknown or has expired. */
export async function findRegistrationTokenId(sql: Sql, token: string, now: Date): Promise<string | undefined> {
  const hash = hashToken(token);
  return (await isRegistrationToken(sql, hash, now)) ? idOfHash(hash) : undefined;
}

/** Revokes a token, given itself or its id, and returns the id; undefined if there is no such token. */
export function revokeRegistrationToken(sql: Sql, which: string, now: Date): Promise<string | undefined> {
  return transaction(sql, async (tx) => {
    const id = looksLike('registrationToken', which) ? idOfInvitation(which) : which;
    if (!(await deleteRegistrationToken(tx, id))) return undefined;
    const detail = { registration_token: id };
    await recordAuditEntry(tx, { action: 'registration_token_revoked', userId: null, origin: null, detail, now });
    return id;
  });
}
