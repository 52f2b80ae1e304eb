/** Registration tokens (the initial access token of RFC 7591 §1.2): whoever has one may register clients for so long. */
import { recordAuditEntry } from '#identity/accounts/audit/audit.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { hashToken, looksLike, createToken } from '../tokens.ts';
import { deleteRegistrationToken, insertRegistrationToken, isRegistrationToken } from './registration-sql.ts';

const DAY_MS = 86_400_000;
const MARK_BYTES = 8;

/** Tells a token from others in the audit and opens nothing: the beginning of its hash, in hex. */
const markOf = (hash: Buffer): string => hash.subarray(0, MARK_BYTES).toString('hex');

/** Shown in the audit and to whoever made the token; with it, it can be revoked. */
export const idOfInvitation = (token: string): string => markOf(hashToken(token));

/** The token; it is in this answer and nowhere else. */
export const createRegistrationToken = (sql: Sql, { days, now }: { days: number; now: Date }): Promise<string> =>
  transaction(sql, async (tx) => {
    const { value, hash } = createToken('registrationToken');
    await insertRegistrationToken(tx, { hash, now, expires: new Date(now.getTime() + days * DAY_MS) });
    const detail = { registration_token: markOf(hash), days };
    await recordAuditEntry(tx, { action: 'registration_token_created', userId: null, origin: null, detail, now });
    return value;
  });

/** Whether it is one that counts now: then its mark. */
export const markOfInvitation = async (sql: Sql, token: string, now: Date): Promise<string | undefined> => {
  const hash = hashToken(token);
  return (await isRegistrationToken(sql, hash, now)) ? markOf(hash) : undefined;
};

/** By its id or by itself. Answers the id; undefined where there is no such token (any more). */
export const revokeRegistrationToken = (sql: Sql, which: string, now: Date): Promise<string | undefined> =>
  transaction(sql, async (tx) => {
    const id = looksLike('registrationToken', which) ? idOfInvitation(which) : which;
    if (!(await deleteRegistrationToken(tx, id))) return undefined;
    const detail = { registration_token: id };
    await recordAuditEntry(tx, { action: 'registration_token_revoked', userId: null, origin: null, detail, now });
    return id;
  });
