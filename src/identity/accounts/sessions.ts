/**
 * What a browser has: a session, whose random cookie is stored as its SHA-256, and which ends when it is not used, and at an age; and what the
 * server gives to a browser instead of storing it. Nonces of forms are signed (HMAC-SHA256 with a key of their own purpose); values between
 * the steps of a flow and the challenges of passkeys are sealed.
 */
import { createHash, randomBytes, createHmac, timingSafeEqual } from 'node:crypto';
import { stringifySetCookie } from 'cookie';
import type { Queryable } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Keys } from '#core/keys.ts';
import type { Sealer } from '#db/seal.ts';
import { originOf } from './audit.ts';
import { findPortal, usePortalLink } from './links-sql.ts';
import { deleteSession, findSession, insertSession, updateSeen } from './accounts-sql.ts';

const ID_BYTES = 32;
const DAY_SECONDS = 86_400;
const DAY_MS = 1_000 * DAY_SECONDS;
/** A use is written at most this often: each write locks the row, and makes a new version of it. */
const SEEN_EVERY_MS = 300_000;

/**
 * `id` is the hash in hex, to which form nonces are bound. It grants no access. `verifiedAt` is when the person last proved who they
 * are, `provedFactor` whether they did so with a second factor. With `mustEnrol` they have to set up one before they see anything else.
 * Without `isEmailVerified` they may work in the store of the invitation that made the account, and do nothing else.
 */
export type Session = {
  userId: number;
  email: string;
  isEmailVerified: boolean;
  id: string;
  verifiedAt: Date | null;
  hasFactor: boolean;
  provedFactor: boolean;
  mustEnrol: boolean;
  isOperator: boolean;
};

/** As long as an access token: the platform makes another link for each visit. */
const PORTAL_SECONDS = 7_200;

type SessionRequest = Pick<RawRequest, 'cookies' | 'now'> & Partial<Pick<RawRequest, 'address' | 'headers'>>;

const hashOf = (value: string): Buffer => createHash('sha256').update(value).digest();

/**
 * Returns the cookies of a host: `set` the value of `Set-Cookie`, `prefix` the beginning of their names. RFC 6265bis §4.1.3.2: a sibling
 * host or plain http cannot set a cookie with the prefix __Host-.
 */
export function cookiesOf(authUrl: string) {
  const secure = authUrl.startsWith('https:');
  const all = { path: '/', httpOnly: true };
  return {
    prefix: secure ? '__Host-halcyon' : 'halcyon',
    set: (name: string, value: string, maxAge: number): string =>
      stringifySetCookie({ ...all, name, value, maxAge, sameSite: 'lax', secure }),
    /** In a frame the browser keeps a cookie for each site that contains the frame, and sends it from no other (CHIPS). */
    setFramed: (name: string, value: string, maxAge: number): string =>
      stringifySetCookie({ ...all, name, value, maxAge, sameSite: 'none', secure: true, partitioned: true }),
  };
}

/**
 * Returns the origins that may contain the response in a frame: those that the operator allows, if the browser loads it into one
 * (Fetch Metadata), and none otherwise.
 */
export function frameOriginsOf(
  { accounts }: Pick<Runtime['config'], 'accounts'>,
  { headers }: Partial<Pick<RawRequest, 'headers'>>,
): readonly string[] {
  return headers?.['sec-fetch-dest'] === 'iframe' ? accounts.portalFrameOrigins : [];
}

/**
 * Returns whether the request is of a session in a frame: of a page in one, or of its scripts. The scripts of other pages count too while the
 * browser sends them the cookie of the frame, which it does if the framing page has the same site.
 */
export function isOfFrame(
  { authUrl }: Pick<Runtime['config'], 'authUrl'>,
  { cookies, headers }: Pick<RawRequest, 'cookies'> & Partial<Pick<RawRequest, 'headers'>>,
): boolean {
  const destination = headers?.['sec-fetch-dest'];
  return cookies[framedNameOf(authUrl)] !== undefined && (destination === 'iframe' || destination === 'empty');
}

const framedNameOf = (authUrl: string): string => `${cookiesOf(authUrl).prefix}-framed`;

/** Returns the hash of the session id in a cookie. */
function presentedIn({ cookies }: Pick<RawRequest, 'cookies'>, name: string): Buffer | undefined {
  const value = cookies[name];
  return value !== undefined && /^[A-Za-z0-9_-]{43}$/.test(value) ? hashOf(value) : undefined;
}

function createPortalSessions({ sql: pool, config: { authUrl, accounts } }: Pick<Runtime, 'sql' | 'config'>) {
  const { prefix: name, set, setFramed } = cookiesOf(authUrl);
  const framedName = framedNameOf(authUrl);
  return {
    /**
     * Returns the session that a link of the platform began: for the pages of one store, and without a proof of who the person is. No page
     * of accounts, apps or operators admits it.
     */
    find: async (request: SessionRequest) => {
      const hash = presentedIn(request, isOfFrame({ authUrl }, request) ? framedName : name);
      const found = hash && (await findPortal(pool.reads, { hash, isUsed: true, now: request.now }));
      if (hash === undefined || found === undefined || accounts.requiresSecondFactor) return null;
      const { client: _, ...of } = found;
      const noProof = { verifiedAt: null, hasFactor: false, provedFactor: false, mustEnrol: false, isOperator: false };
      return { ...of, ...noProof, id: hash.toString('hex'), isEmailVerified: true };
    },
    /** Makes a link, by its hash, a session, and returns its `Set-Cookie`; undefined if the link was used concurrently, or has expired. */
    start: async (
      sql: Queryable,
      { hash, isFramed }: { hash: Buffer; isFramed: boolean },
      now: Date,
    ): Promise<string | undefined> => {
      const value = randomBytes(ID_BYTES).toString('base64url');
      const expires = new Date(now.getTime() + PORTAL_SECONDS * 1_000);
      if (!(await usePortalLink(sql, { hash, session: hashOf(value), isFramed, now, expires }))) return undefined;
      return isFramed ? setFramed(framedName, value, PORTAL_SECONDS) : set(name, value, PORTAL_SECONDS);
    },
  };
}

export type Sessions = ReturnType<typeof createSessions>;

/** Functions that change a session run in the caller's transaction. */
export function createSessions({ sql: pool, config }: Pick<Runtime, 'sql' | 'config'>) {
  const { authUrl, accounts } = config;
  const { idleDays, maxDays } = accounts.sessions;
  const { prefix: name, set } = cookiesOf(authUrl);
  const expiry = (created: Date, seen: Date): Date =>
    new Date(Math.min(seen.getTime() + idleDays * DAY_MS, created.getTime() + maxDays * DAY_MS));
  const portal = createPortalSessions({ sql: pool, config });

  return {
    /**
     * Returns the session of a request, and records its use. Without `address` and `headers` it is no use: an open stream, which
     * asks whether its session still exists, does not keep the session alive.
     */
    find: async (request: SessionRequest): Promise<Session | null> => {
      const { now, address, headers } = request;
      const hash = presentedIn(request, name);
      const found = hash === undefined ? undefined : await findSession(pool.reads, hash, now);
      if (hash === undefined || found === undefined) return null;
      const { userId, email, isEmailVerified, verifiedAt, dateCreated, dateSeen, factorSince, isOperator } = found;
      const isSeenLately = (dateSeen ?? dateCreated).getTime() > now.getTime() - SEEN_EVERY_MS;
      if (address !== undefined && headers !== undefined && !isSeenLately)
        await updateSeen(pool, hash, {
          origin: originOf({ address, headers }),
          now,
          expires: expiry(dateCreated, now),
        });
      const hasFactor = factorSince !== null;
      // A verification of before the factor was set up needed none.
      const provedFactor = hasFactor && verifiedAt !== null && verifiedAt >= factorSince;
      const mustEnrol = !hasFactor && accounts.requiresSecondFactor;
      const of = { userId, email, isEmailVerified, isOperator };
      return { ...of, id: hash.toString('hex'), verifiedAt, hasFactor, provedFactor, mustEnrol };
    },
    findPortal: portal.find,
    startPortal: portal.start,
    /** Starts a session and returns its `Set-Cookie`. The id is always new, which prevents session fixation. */
    start: async (
      sql: Queryable,
      userId: number,
      request: Pick<RawRequest, 'address' | 'headers' | 'now'>,
    ): Promise<string> => {
      const { now } = request;
      const value = randomBytes(ID_BYTES).toString('base64url');
      const origin = originOf(request);
      await insertSession(sql, { hash: hashOf(value), userId, origin, now, expires: expiry(now, now) });
      return set(name, value, maxDays * DAY_SECONDS);
    },
    /** Ends the request's session. Returns its user id (null without one) and the `Set-Cookie` that removes the cookie. */
    end: async (sql: Queryable, request: RawRequest): Promise<{ userId: number | null; cookie: string }> => {
      const hash = presentedIn(request, name);
      const userId = hash === undefined ? undefined : await deleteSession(sql, hash);
      return { userId: userId ?? null, cookie: set(name, '', 0) };
    },
  };
}

/** Returns the HMAC-SHA256 of the parts. */
export function mac(key: Buffer, ...parts: readonly unknown[]): Buffer {
  return createHmac('sha256', key).update(JSON.stringify(parts)).digest();
}

/**
 * Signs the session and everything that the form's effect depends on (`bound`: its name, then the rest). The server stores nothing, so two
 * tabs do not interfere, and submitting a form twice is not an error by itself.
 */
export function formNonce([key]: Keys, session: Session, bound: readonly unknown[]): string {
  return mac(key, session.id, ...bound).toString('base64url');
}

export function isFormNonce(value: string | null, keys: Keys, session: Session, bound: readonly unknown[]): boolean {
  const bytes = Buffer.from(value ?? '');
  return keys.some((key) => {
    const expected = Buffer.from(formNonce([key], session, bound));
    return bytes.length === expected.length && timingSafeEqual(bytes, expected);
  });
}

export const CARRIED_MS = 10 * 60_000;

/** Returns a value that a browser carries for ten minutes and cannot read. `boundTo`: its purpose, and what its meaning depends on. */
export function carry(sealer: Sealer, boundTo: string, value: unknown, now: Date): string {
  const until = now.getTime() + CARRIED_MS;
  return sealer.seal(JSON.stringify({ until, value }), boundTo).toString('base64url');
}

/** Returns what a browser has carried, and when it expires; undefined if it is not authentic, is bound to something else, or has expired. */
export function carried(
  sealer: Sealer,
  boundTo: string,
  text: string | null | undefined,
  now: Date,
): { value: unknown; until: Date } | undefined {
  try {
    const opened = sealer.open(Buffer.from(text ?? '', 'base64url'), boundTo);
    const { until, value } = JSON.parse(opened) as { until: number; value: unknown };
    return now.getTime() < until ? { value, until: new Date(until) } : undefined;
  } catch {
    return undefined;
  }
}
