/** Issues password reset links: a single-use secret with an expiry, stored as its SHA-256. */
import { createHash, randomBytes } from 'node:crypto';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import { recordAuditEntry, type AuditEntry } from '../audit/audit.ts';
import { lockUser } from '../accounts-sql.ts';
import { deleteOlderResets, insertReset } from './password-sql.ts';

/** The prefix lets a secret scanner, or a reader of a log, identify a leaked secret. */
const PREFIX = 'hal_pr_';
const TOKEN_BYTES = 32;
/** More than one, otherwise any stranger's request would invalidate the link that the owner is about to use. */
const LINKS_MAX = 3;

/** Returns the hash by which a token is looked up; undefined if the text cannot be a token, which saves the statement. */
export function hashOfLink(token: string | null): Buffer | undefined {
  return token !== null && token.startsWith(PREFIX) && /^[A-Za-z0-9_-]{43}$/.test(token.slice(PREFIX.length))
    ? createHash('sha256').update(token).digest()
    : undefined;
}

export type Links = {
  lifetimeMinutes: number;
  /** Issues a link and deletes the user's older links except two; undefined if the user does not exist or is disabled. */
  issue: (userId: number, by: Pick<AuditEntry, 'origin' | 'client' | 'now'>) => Promise<string | undefined>;
  /** Does the same in the caller's transaction. */
  issueIn: (tx: Tx, userId: number, by: Pick<AuditEntry, 'origin' | 'client' | 'now'>) => Promise<string | undefined>;
};

export function createLinks(deps: { sql: Sql; authUrl: string; lifetimeMinutes: number }): Links {
  const issueIn: Links['issueIn'] = async (tx, userId, by) => {
    const user = await lockUser(tx, userId);
    if (user === undefined || user.isDisabled) return undefined;
    const token = PREFIX + randomBytes(TOKEN_BYTES).toString('base64url');
    const hash = createHash('sha256').update(token).digest();
    const expires = new Date(by.now.getTime() + deps.lifetimeMinutes * 60_000);
    await deleteOlderResets(tx, { userId, kept: LINKS_MAX - 1 });
    await insertReset(tx, { hash, userId, now: by.now, expires });
    await recordAuditEntry(tx, { ...by, action: 'password_reset_requested', userId });
    return `${deps.authUrl}/reset-password?token=${token}`;
  };
  return {
    lifetimeMinutes: deps.lifetimeMinutes,
    issueIn,
    issue: (userId, by) => transaction(deps.sql, (tx) => issueIn(tx, userId, by)),
  };
}
