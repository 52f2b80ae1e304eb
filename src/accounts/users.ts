/** The people who sign in: an e-mail address and a password. */
import type { Queryable } from '#database/pool.ts';
import { invalid, Problem, type Fault } from '#kernel/problem.ts';
import type { Passwords } from './passwords.ts';
import { findUserByEmail, insertUser } from './queries.ts';

const EMAIL_LENGTH_MAX = 254;
const PASSWORD_LENGTH_MIN = 10;
const PASSWORD_LENGTH_MAX = 1_000;

/** One `@` with something on both sides and no blank or control character: only a mail that arrives proves more. */
const EMAIL = /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u;

const codePoints = (text: string): number => Array.from(text).length;

const isEmail = (text: string): boolean => text.length <= EMAIL_LENGTH_MAX && EMAIL.test(text);

const faultsOf = ({ email, password }: { email: string; password: string }): Fault[] => {
  const faults: Fault[] = [];
  if (!isEmail(email)) {
    const message = `email must be an address such as ada@example.com, at most ${EMAIL_LENGTH_MAX} characters`;
    faults.push({ code: 'invalid_value', message, field: 'email' });
  }
  const length = codePoints(password);
  if (length < PASSWORD_LENGTH_MIN) {
    const message = `password must be at least ${PASSWORD_LENGTH_MIN} characters`;
    faults.push({ code: 'too_short', message, field: 'password' });
  }
  if (length > PASSWORD_LENGTH_MAX) {
    const message = `password must be at most ${PASSWORD_LENGTH_MAX} characters`;
    faults.push({ code: 'too_long', message, field: 'password' });
  }
  return faults;
};

/** Throws a 400 with every fault found, and a 409 `email_taken` where another user has the address in any case. */
export const createUser = async (
  sql: Queryable,
  passwords: Passwords,
  user: { email: string; password: string; now: Date },
): Promise<{ id: number }> => {
  const faults = faultsOf(user);
  if (faults.length > 0) throw invalid(...faults);
  const passwordHash = await passwords.hash(user.password);
  const id = await insertUser(sql, { email: user.email, passwordHash, now: user.now });
  if (id !== undefined) return { id };
  throw new Problem(409, { code: 'email_taken', message: 'Another user has this e-mail address', field: 'email' });
};

/**
 * The user's id, or undefined. An unknown address costs the same time as a wrong password, so that neither the answer
 * nor its time tells who has an account.
 */
export const checkPassword = async (
  sql: Queryable,
  passwords: Passwords,
  given: { email: string; password: string },
): Promise<number | undefined> => {
  const user = await findUserByEmail(sql, isEmail(given.email) ? given.email : '');
  const matches = await passwords.verify(given.password, user?.passwordHash);
  return matches ? user?.id : undefined;
};
