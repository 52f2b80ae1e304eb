/** Browser sessions: a random cookie, of which only the SHA-256 is stored. */
import { createHash, randomBytes } from 'node:crypto';
import { stringifySetCookie } from 'cookie';
import type { Queryable, Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { deleteSession, deleteSessionsOf, findSession, insertSession } from './accounts-sql.ts';

const ID_BYTES = 32;
const DAY_SECONDS = 86_400;

/**
 * `id` is the hash in hex, to which form nonces are bound. It grants no access. `verifiedAt` is when the person last proved who they
 * are. With `mustEnrol` they have to set up a second factor before they see anything else.
 */
export type Session = { userId: number; email: string; id: string; verifiedAt: Date | null; mustEnrol: boolean };

/** Functions that change a session run in the caller's transaction. */
export type Sessions = {
  find: (request: Pick<RawRequest, 'cookies' | 'now'>) => Promise<Session | null>;
  /** Starts a session and returns its `Set-Cookie`. The id is always new, which prevents session fixation. */
  start: (sql: Queryable, userId: number, now: Date) => Promise<string>;
  /**
   * Ends the request's session. Returns its user id (null if there was no session) and the `Set-Cookie` that removes the
   * cookie.
   */
  end: (sql: Queryable, request: RawRequest) => Promise<{ userId: number | null; cookie: string }>;
  /** Ends every session of a user, in every browser. */
  endAll: (sql: Queryable, userId: number) => Promise<void>;
};

const hashOf = (value: string): Buffer => createHash('sha256').update(value).digest();

export function createSessions(deps: {
  sql: Sql;
  authUrl: string;
  lifetimeDays: number;
  /** Whether every user needs a second factor. */
  requiresSecondFactor: boolean;
}): Sessions {
  const { lifetimeDays } = deps;
  const secure = deps.authUrl.startsWith('https:');
  // RFC 6265bis §4.1.3.2: a sibling host or plain http cannot set a cookie with the prefix __Host-.
  const name = secure ? '__Host-halcyon' : 'halcyon';

  const cookie = (value: string, maxAge: number): string =>
    stringifySetCookie({ name, value, maxAge, path: '/', httpOnly: true, sameSite: 'lax', secure });

  const presented = (request: Pick<RawRequest, 'cookies'>): Buffer | undefined => {
    const value = request.cookies[name];
    return value !== undefined && /^[A-Za-z0-9_-]{43}$/.test(value) ? hashOf(value) : undefined;
  };

  return {
    find: async (request) => {
      const hash = presented(request);
      const found = hash === undefined ? undefined : await findSession(deps.sql.reads, hash, request.now);
      if (hash === undefined || found === undefined) return null;
      const { hasFactor, isFactorRequired, ...session } = found;
      const mustEnrol = !hasFactor && (deps.requiresSecondFactor || isFactorRequired);
      return { ...session, id: hash.toString('hex'), mustEnrol };
    },
    start: async (sql, userId, now) => {
      const value = randomBytes(ID_BYTES).toString('base64url');
      const expires = new Date(now.getTime() + lifetimeDays * DAY_SECONDS * 1_000);
      await insertSession(sql, { hash: hashOf(value), userId, now, expires });
      return cookie(value, lifetimeDays * DAY_SECONDS);
    },
    end: async (sql, request) => {
      const hash = presented(request);
      const userId = hash === undefined ? undefined : await deleteSession(sql, hash);
      return { userId: userId ?? null, cookie: cookie('', 0) };
    },
    endAll: deleteSessionsOf,
  };
}
