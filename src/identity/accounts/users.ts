/** The properties of users, and how they are validated and created: an e-mail address and a password, which is stored as a hash. */
import type { Queryable } from '#db/pool.ts';
import { externalIdHints } from '#http/external-keys.ts';
import type { Fields } from '#http/field-table.ts';
import { EMAIL_LENGTH_MAX, readEmail } from '#core/email.ts';
import { codePoints, isLonger } from '#core/text.ts';
import { invalid, invalidValue, Problem, type Fault, temporary } from '#core/problem.ts';
import { recordAuditEntry, type AuditEntry } from './audit.ts';
import { insertUser } from './accounts-sql.ts';
import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

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

// An e-mail address and a password.

/**
 * Returns the least length of a new password in code points (ASVS 5.0 V6.2.1: at least 8). Passwords from before this rule stay valid.
 */
export function passwordLengthMin({ hasSecondFactor }: { hasSecondFactor: boolean }): number {
  return hasSecondFactor ? 8 : 12;
}

export function emailFault(email: string): Fault | undefined {
  if (readEmail(email) !== undefined) return undefined;
  const message = `email must be an address such as ada@example.com, at most ${EMAIL_LENGTH_MAX} characters`;
  return invalidValue('email', message);
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

// Hashes of passwords: argon2id (RFC 9106) in the PHC string format. Each contains its parameters, so they can be raised without resetting
// passwords.

/** In code points. Normalizing runs on the event loop, and its time grows with the square of a run of combining marks. */
export const PASSWORD_LENGTH_MAX = 1_000;

/** `memory` is in KiB. */
export type PasswordCost = { memory: number; passes: number; parallelism: number };

/** The OWASP Password Storage Cheat Sheet's first choice for argon2id: 19 MiB, two passes, one lane. */
export const PASSWORD_COST: PasswordCost = { memory: 19_456, passes: 2, parallelism: 1 };
const SALT_BYTES = 16;
const TAG_BYTES = 32;

const derive = promisify(argon2);

export type Passwords = ReturnType<typeof createPasswords>;

const busy = (): Problem =>
  temporary(503, { code: 'busy', message: 'Too many people are signing in at this moment; try again shortly' }, 5);

/** Runs up to `concurrency` tasks at once and queues up to `waiting` more in order; throws a 503 beyond that. */
function createLimiter(concurrency: number, waiting: number) {
  let running = 0;
  const queue: (() => void)[] = [];
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running < concurrency) running += 1;
    else if (queue.length < waiting) await new Promise<void>((resolve) => queue.push(resolve));
    else throw busy();
    try {
      return await work();
    } finally {
      // Hands the slot to the next waiting task instead of freeing it, so that a later caller cannot overtake.
      const next = queue.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}

const deriveTag = (password: string, nonce: Uint8Array, tagLength: number, cost: PasswordCost): Promise<Buffer> =>
  // NFKC (NIST SP 800-63B §3.1.1.2): the same word typed on another keyboard is the same password.
  derive('argon2id', { message: password.normalize('NFKC'), nonce, tagLength, ...cost });

/** Returns Base64 without padding, as the PHC string format requires. */
const encode = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64').replaceAll('=', '');

const PHC = /^\$argon2id\$v=19\$m=([0-9]+),t=([0-9]+),p=([0-9]+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

function parse(stored: string) {
  const [, memory, passes, parallelism, salt = '', tag = ''] = PHC.exec(stored) ?? [];
  if (tag === '') throw new TypeError('A stored password hash is not an argon2id PHC string');
  return {
    cost: { memory: Number(memory), passes: Number(passes), parallelism: Number(parallelism) },
    salt: Buffer.from(salt, 'base64'),
    tag: Buffer.from(tag, 'base64'),
  };
}

/**
 * At PASSWORD_COST a hash takes 19 MiB and a thread for about 30 ms, so at most `hashesAtOnce` run concurrently and at most
 * `hashesWaiting` are queued: a flood of sign-ins must not exhaust the machine.
 */
export function createPasswords(limits: { hashesAtOnce: number; hashesWaiting?: number; cost: PasswordCost }) {
  const { cost } = limits;
  const limited = createLimiter(limits.hashesAtOnce, limits.hashesWaiting ?? 100);
  return {
    /** Returns the PHC string to store. The caller checks the length, because it reports the error. */
    hash: (password: string): Promise<string> =>
      limited(async () => {
        const salt = randomBytes(SALT_BYTES);
        const tag = await deriveTag(password, salt, TAG_BYTES, cost);
        const { memory, passes, parallelism } = cost;
        return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${encode(salt)}$${encode(tag)}`;
      }),
    /**
     * Returns whether the password matches. `stored` is undefined for an unknown user; then, and for a password beyond the
     * maximum length, it does the same work and returns false.
     */
    verify: (password: string, stored: string | undefined): Promise<boolean> =>
      limited(async () => {
        const isTooLong = isLonger(password, PASSWORD_LENGTH_MAX);
        const candidate = isTooLong ? '' : password;
        if (stored === undefined) {
          await deriveTag(candidate, randomBytes(SALT_BYTES), TAG_BYTES, cost);
          return false;
        }
        const { cost: storedCost, salt, tag } = parse(stored);
        const isSame = timingSafeEqual(await deriveTag(candidate, salt, tag.length, storedCost), tag);
        return isSame && !isTooLong;
      }),
  };
}

/**
 * The worst 40 characters take 30 ms of processor time, 256 take 400 ms; of longer passwords only the beginning is
 * estimated.
 */
const ESTIMATED_CHARACTERS = 40;
/**
 * Of 0 to 4. From 3 on more than 10⁸ guesses are needed, which the throttle of sign-in does not let through in a
 * lifetime.
 */
const SCORE_MIN = 3;

const COMMON = 'it is among the most common passwords';
const SEQUENCE = 'it is a sequence of characters';
const KEYS = 'it is a row of keys';
const REPETITION = 'it repeats itself';
const REASONS: Readonly<Record<string, string>> = {
  topTen: COMMON,
  topHundred: COMMON,
  common: COMMON,
  similarToCommon: 'it differs little from a common password',
  sequences: SEQUENCE,
  straightRow: KEYS,
  keyPattern: KEYS,
  simpleRepeat: REPETITION,
  extendedRepeat: REPETITION,
  userInputs: 'it is made of the e-mail address or the name of this service',
  recentYears: 'it is made of a year',
  dates: 'it is made of a date',
};

/** Loads the dictionaries. This takes 60 ms, so it is deferred until a user first chooses a password. */
async function loadDictionaries() {
  const [{ ZxcvbnFactory }, { dictionary, adjacencyGraphs }] = await Promise.all([
    import('@zxcvbn-ts/core'),
    import('@zxcvbn-ts/language-common'),
  ]);
  return new ZxcvbnFactory({ dictionary, graphs: adjacencyGraphs });
}
let loading: ReturnType<typeof loadDictionaries> | undefined;

/**
 * Returns why a password is guessed early (NIST SP 800-63B §3.1.1.2); undefined if it is not. zxcvbn has the 49,000 most common ones, and
 * finds them with digits, capitals and look-alikes (`P@ssw0rd123`), rows of keys, sequences, repetitions and the person's own e-mail.
 */
export async function guessableFault({ email, password }: EmailAndPassword): Promise<Fault | undefined> {
  const estimator = await (loading ??= loadDictionaries());
  const own = ['halcyon', email, ...email.split('@')];
  const { score, feedback } = estimator.check(password.slice(0, ESTIMATED_CHARACTERS), own);
  if (score >= SCORE_MIN) return undefined;
  const reason = REASONS[feedback.warning ?? ''] ?? 'a few more words make it better';
  return { code: 'too_common', message: `password is easy to guess: ${reason}`, field: 'password' };
}
