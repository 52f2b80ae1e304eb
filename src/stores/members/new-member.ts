/** Finds the user to add as a member: by e-mail address or, for the platform, by id. */
import type { Sql } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { invalid, Problem } from '#core/problem.ts';
import { isInPerson, requirePlatform } from '#core/principal.ts';
import { findUserId } from './members-sql.ts';

type ThrottleResult = { allowed: true; giveBack: () => Promise<void> } | { allowed: false; retryAfterSeconds: number };

/** The throttle of the accounts module, as far as members need it. */
export type AddressThrottle = {
  take: (
    buckets: readonly { limit: 'unknown members by person'; subject: string }[],
    now: Date,
  ) => Promise<ThrottleResult>;
};

type Deps = { sql: Sql; throttle: AddressThrottle };
type MemberInput = { user?: number; email?: string };

const EMAIL_OR_USER = 'Send either email or user, not both';
const UNKNOWN_EMAIL = 'No account has this e-mail address, or it is not verified: invite the person instead';

/** Owners must not add users by id: members see each other's addresses, so all addresses could be listed. */
const EMAIL_REQUIRED = {
  message: 'Send email: only the scope platform can add a user by id',
  field: 'user',
};

/** Returns the 400 for a user that does not exist. */
export function unknownUser({ email }: MemberInput): Problem {
  return email === undefined
    ? invalid({ code: 'invalid_value', message: 'user must be the id of a user', field: 'user' })
    : invalid({ code: 'invalid_value', message: UNKNOWN_EMAIL, field: 'email' });
}

function tooMany(retryAfterSeconds: number): Problem {
  const message = `Too many e-mail addresses without an account were tried: wait ${retryAfterSeconds} s, or ask the operator of this service`;
  const headers = { 'Retry-After': String(retryAfterSeconds) };
  return new Problem(429, { code: 'too_many_requests', message, field: 'email' }, { headers });
}

/**
 * Returns the id of the user with an e-mail address, throttled for users because the result reveals whether an account exists:
 * each try takes from the throttle and gives back if it found a user, which the changelog records. The platform can read all
 * accounts anyway.
 */
async function findThrottled(
  { sql, throttle }: Deps,
  email: string,
  { principal, now }: Pick<ApiRequest, 'principal' | 'now'>,
): Promise<number | undefined> {
  if (!isInPerson(principal)) return findUserId(sql, email, { isVerified: false });
  const throttled = await throttle.take(
    [{ limit: 'unknown members by person', subject: String(principal.userId) }],
    now,
  );
  if (!throttled.allowed) throw tooMany(throttled.retryAfterSeconds);
  // An account may have been made by an invitation under the address of another person.
  const userId = await findUserId(sql, email, { isVerified: true });
  if (userId !== undefined) await throttled.giveBack();
  return userId;
}

/**
 * Returns the id of the user in the body. Throws a 400 or 403 that says what to change, and a 429 after too many unknown
 * addresses.
 */
export async function findNewMember(
  deps: Deps,
  { body, ...request }: Pick<ApiRequest<MemberInput>, 'body' | 'principal' | 'now'>,
): Promise<number> {
  const { user, email } = body;
  if (user !== undefined) requirePlatform(request.principal, EMAIL_REQUIRED);
  if ((user === undefined) === (email === undefined))
    throw invalid({ code: email === undefined ? 'required' : 'invalid_value', message: EMAIL_OR_USER, field: 'email' });
  const userId = email === undefined ? user : await findThrottled(deps, email.trim(), request);
  if (userId === undefined) throw unknownUser(body);
  return userId;
}
