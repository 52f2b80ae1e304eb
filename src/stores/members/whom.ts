/** Whom an addition means: somebody by their e-mail address or, for the platform, by their id. */
import type { Sql } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { invalid, Problem } from '#core/problem.ts';
import { isInPerson, requirePlatform } from '#core/principal.ts';
import { findUserId } from './members-sql.ts';

type Taken = { allowed: true; giveBack: () => Promise<void> } | { allowed: false; retryAfterSeconds: number };

/** The buckets that slow guessing, as far as members need them. */
export type AddressThrottle = {
  take: (buckets: readonly { limit: 'unknown members by person'; subject: string }[], now: Date) => Promise<Taken>;
};

type Deps = { sql: Sql; throttle: AddressThrottle };
type Given = { user?: number; email?: string };

const WHO = 'Say whom to add: email or user, and not both';
const UNKNOWN = 'Nobody signs in here with this address: ask whoever runs this service to make an account for them';

/** Members are shown each other's addresses: an owner who could add by number would be shown everybody's. */
const BY_ADDRESS = {
  message: 'Say whom to add by their email: by its id only the scope platform adds a user',
  field: 'user',
};

/** 400: nobody is there whom this means. */
export const unknown = ({ email }: Given): Problem =>
  email === undefined
    ? invalid({ code: 'invalid_value', message: 'user must be the id of a user', field: 'user' })
    : invalid({ code: 'invalid_value', message: UNKNOWN, field: 'email' });

const tooMany = (retryAfterSeconds: number): Problem => {
  const message = `Too many addresses were tried with which nobody signs in here: wait ${retryAfterSeconds} s, or ask whoever runs this service who has an account`;
  const headers = { 'Retry-After': String(retryAfterSeconds) };
  return new Problem(429, { code: 'too_many_requests', message, field: 'email' }, { headers });
};

/**
 * An owner is told whether an address has an account, so they are told it slowly: each try is taken before it is judged, and
 * given back where it found somebody, which the changelog shows. The platform may read all accounts anyway.
 */
const findSlowly = async (
  { sql, throttle }: Deps,
  email: string,
  { principal, now }: Pick<ApiRequest, 'principal' | 'now'>,
): Promise<number | undefined> => {
  if (!isInPerson(principal)) return findUserId(sql, email);
  const taken = await throttle.take([{ limit: 'unknown members by person', subject: String(principal.userId) }], now);
  if (!taken.allowed) throw tooMany(taken.retryAfterSeconds);
  const found = await findUserId(sql, email);
  if (found !== undefined) await taken.giveBack();
  return found;
};

/** The id of whom a body means. Throws a 400 or 403 that says what to change, and a 429 where too many were nobody. */
export const whomOf = async (
  deps: Deps,
  { body, ...request }: Pick<ApiRequest<Given>, 'body' | 'principal' | 'now'>,
): Promise<number> => {
  const { user, email } = body;
  if (user !== undefined) requirePlatform(request.principal, BY_ADDRESS);
  if ((user === undefined) === (email === undefined))
    throw invalid({ code: email === undefined ? 'required' : 'invalid_value', message: WHO, field: 'email' });
  const found = email === undefined ? user : await findSlowly(deps, email.trim(), request);
  if (found === undefined) throw unknown(body);
  return found;
};
