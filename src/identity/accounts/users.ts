/** The properties of users, and how they are validated and created: an e-mail address and a password. */
import type { Queryable } from '#db/pool.ts';
import { externalIdHints } from '#http/external-keys.ts';
import type { Fields } from '#http/field-table.ts';
import { EMAIL_LENGTH_MAX, readEmail } from '#core/email.ts';
import { codePoints, isLonger } from '#core/text.ts';
import { invalid, Problem, type Fault } from '#core/problem.ts';
import { recordAuditEntry, type AuditEntry } from './audit.ts';
import { guessableFault, PASSWORD_LENGTH_MAX, type Passwords } from './passwords.ts';
import { insertUser } from './accounts-sql.ts';

/** `password` is in the body of a POST only. */
export const userFields = {
  id: { kind: 'number' },
  /** Null for apps, which may not contact the user; a null in a body keeps the address. */
  email: {
    kind: 'text',
    isNullable: true,
    from: 'code',
    input: {
      isRequired: true,
      isClearable: true,
      maxLength: EMAIL_LENGTH_MAX,
      description:
        'The address the user signs in with. Unless the operator trusts the platform, it changes when the user confirms it.',
    },
  },
  is_email_verified: { kind: 'boolean' },
  external_id: {
    kind: 'text',
    isNullable: true,
    from: 'sql',
    input: { isClearable: true, ...externalIdHints('user') },
  },
  date_created: { kind: 'date' },
} as const satisfies Fields;

/**
 * Returns the least length of a new password in code points (ASVS 5.0 V6.2.1: at least 8). Passwords from before this rule stay valid.
 */
export function passwordLengthMin({ hasSecondFactor }: { hasSecondFactor: boolean }): number {
  return hasSecondFactor ? 8 : 12;
}

export function emailFault(email: string): Fault | undefined {
  if (readEmail(email) !== undefined) return undefined;
  const message = `email must be an address such as ada@example.com, at most ${EMAIL_LENGTH_MAX} characters`;
  return { code: 'invalid_value', message, field: 'email' };
}

const wrongPassword = (code: string, message: string): Fault => ({ code, message, field: 'password' });

type EmailAndPassword = { email: string; password: string };
/** `hasSecondFactor`: whether the account needs a second factor to sign in; its password may then be shorter. */
export type ChosenPassword = EmailAndPassword & { hasSecondFactor: boolean };

function formFault({ email, password, hasSecondFactor }: ChosenPassword): Fault | undefined {
  const lengthMin = passwordLengthMin({ hasSecondFactor });
  if (isLonger(password, PASSWORD_LENGTH_MAX))
    return wrongPassword('too_long', `password must be at most ${PASSWORD_LENGTH_MAX} characters`);
  if (codePoints(password) < lengthMin)
    return wrongPassword('too_short', `password must be at least ${lengthMin} characters`);
  if (password.trim().toLowerCase() === email.toLowerCase())
    return wrongPassword('invalid_value', 'password must not be the e-mail address');
  return undefined;
}

/**
 * Returns the fault of a password that a user chooses. There are no rules about kinds of characters, because they lead to
 * worse passwords (NIST SP 800-63B §3.1.1.2).
 */
export async function passwordFault(chosen: ChosenPassword): Promise<Fault | undefined> {
  return formFault(chosen) ?? guessableFault(chosen);
}

/**
 * `isEmailVerified`: the operator has given the address, or the user has received mail at it; true by default. `hasPassword`: the
 * person knows the password; true by default.
 */
export type NewUser = { email: string; passwordHash: string; isEmailVerified?: boolean; hasPassword?: boolean };

/**
 * Validates a user and hashes the password; the caller has already checked that a chosen password is hard to guess. It is
 * separate from `addUser`, because a hash may wait in the queue and no transaction should wait with it. Throws a 400 with
 * every fault found.
 */
export async function prepareUser(passwords: Passwords, user: EmailAndPassword): Promise<NewUser> {
  const faults = [emailFault(user.email), formFault({ ...user, hasSecondFactor: false })].filter(
    (fault) => fault !== undefined,
  );
  if (faults.length > 0) throw invalid(...faults);
  const email = readEmail(user.email) ?? user.email;
  return { email, passwordHash: await passwords.hash(user.password) };
}

/** Returns the 409 for an address that another user has. */
export function emailTaken(): Problem {
  return new Problem(409, { code: 'email_taken', message: 'Another user has this e-mail address', field: 'email' });
}

/**
 * Inserts a user; call it in a transaction. Throws a 409 `email_taken` if another user has the address.
 */
export async function addUser(
  sql: Queryable,
  user: NewUser,
  by: Pick<AuditEntry, 'origin' | 'client' | 'now'>,
): Promise<{ id: number }> {
  const id = await insertUser(sql, { isEmailVerified: true, ...user, now: by.now });
  if (id === undefined) throw emailTaken();
  await recordAuditEntry(sql, { ...by, action: 'user_created', userId: id });
  return { id };
}

/** Validates, hashes and inserts a user. Throws the errors of `prepareUser` and `addUser`. */
export async function createUser(
  sql: Queryable,
  passwords: Passwords,
  { now, ...user }: { email: string; password: string; now: Date },
): Promise<{ id: number }> {
  return addUser(sql, await prepareUser(passwords, user), { origin: null, now });
}
