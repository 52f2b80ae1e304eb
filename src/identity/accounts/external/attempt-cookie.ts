/** The cookie between the redirect to a provider and its callback: it binds the response to the browser that asked for it. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { stringifySetCookie } from 'cookie';
import type { Keys } from '#core/keys.ts';
import type { RawRequest } from '#http/route.ts';
import { returnPath } from '../return-path.ts';
import type { Proofs } from './providers.ts';

const VALID_SECONDS = 10 * 60;
const ID_BYTES = 32;
/** Browsers reject a cookie of more than 4,096 bytes. */
const RETURN_LENGTH_MAX = 2_000;
const VALUE = /^([\w-]{43})\.(\d{1,12})\.([\w-]*)\.([\w-]{43})$/;

type CookieRequest = Pick<RawRequest, 'cookies' | 'now'>;

/** A started sign-in. `id` is unique; `expires` is when the cookie does. */
type SignInAttempt = { id: string; expires: Date; returnTo: string | undefined; proofs: Proofs };

export type AttemptCookies = {
  /** Starts a sign-in with a provider. */
  start: (provider: string, returnTo: string | undefined, now: Date) => { cookie: string; proofs: Proofs };
  /** Returns the sign-in with this provider that the browser has started; undefined if there is none, or it has expired. */
  find: (request: CookieRequest, provider: string) => SignInAttempt | undefined;
  /** Returns the `Set-Cookie` that removes the cookie. */
  end: () => string;
};

const mac = (key: Buffer, ...parts: readonly (string | number)[]): Buffer =>
  createHmac('sha256', key).update(JSON.stringify(parts)).digest();

/** The proof of a cookie, which is valid for one provider. */
const proofOf = (key: Buffer, of: { provider: string; id: string; expires: number; back: string }): Buffer =>
  mac(key, 'attempt', of.provider, of.id, of.expires, of.back);

/** Derives what the provider sees from the random id, so that the cookie does not contain the PKCE verifier. */
function proofsOf(key: Buffer, id: string): Proofs {
  const derive = (purpose: string): string => mac(key, purpose, id).toString('base64url');
  return { state: derive('state'), nonce: derive('nonce'), verifier: derive('verifier') };
}

/** `keys`: 32 bytes each. The server stores nothing until the callback. */
export function createAttemptCookies({ keys, authUrl }: { keys: Keys; authUrl: string }): AttemptCookies {
  const secure = authUrl.startsWith('https:');
  const name = secure ? '__Host-halcyon-external' : 'halcyon-external';
  const cookie = (value: string, maxAge: number): string =>
    stringifySetCookie({ name, value, maxAge, path: '/', httpOnly: true, sameSite: 'lax', secure });

  return {
    start: (provider, returnTo, now) => {
      const [key] = keys;
      const id = randomBytes(ID_BYTES).toString('base64url');
      const expires = Math.floor(now.getTime() / 1_000) + VALID_SECONDS;
      const back = returnTo === undefined || returnTo.length > RETURN_LENGTH_MAX ? '' : returnTo;
      const proof = proofOf(key, { provider, id, expires, back }).toString('base64url');
      const value = [id, expires, Buffer.from(back).toString('base64url'), proof].join('.');
      return { cookie: cookie(value, VALID_SECONDS), proofs: proofsOf(key, id) };
    },
    find: ({ cookies, now }, provider) => {
      const [, id = '', expires = '', encoded = '', proof] = VALUE.exec(cookies[name] ?? '') ?? [];
      if (proof === undefined || Number(expires) * 1_000 <= now.getTime()) return undefined;
      const back = Buffer.from(encoded, 'base64url').toString();
      const given = Buffer.from(proof, 'base64url');
      const claimed = { provider, id, expires: Number(expires), back };
      const key = keys.find((one) => timingSafeEqual(proofOf(one, claimed), given));
      if (key === undefined) return undefined;
      const returnTo = returnPath(back);
      return { id, expires: new Date(Number(expires) * 1_000), returnTo, proofs: proofsOf(key, id) };
    },
    end: () => cookie('', 0),
  };
}
