/** The challenges that passkeys sign: random bytes, expiry and an HMAC of both, so the server stores none. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Keys } from '#core/keys.ts';

export const CHALLENGE_VALID_MS = 10 * 60_000;

const RANDOM_BYTES = 16;
const TIME_BYTES = 6;
const MAC_BYTES = 32;

export type Challenges = {
  issue: (now: Date) => Buffer;
  /** Returns the expiry of a challenge in base64url; undefined if this server did not issue it, or it has expired. */
  expiryOf: (challenge: string, now: Date) => Date | undefined;
};

const macOf = (key: Buffer, body: Buffer): Buffer => createHmac('sha256', key).update(body).digest();

export function createChallenges(keys: Keys): Challenges {
  return {
    issue: (now) => {
      const expires = Buffer.alloc(TIME_BYTES);
      expires.writeUIntBE(now.getTime() + CHALLENGE_VALID_MS, 0, TIME_BYTES);
      const body = Buffer.concat([randomBytes(RANDOM_BYTES), expires]);
      return Buffer.concat([body, macOf(keys[0], body)]);
    },
    expiryOf: (challenge, now) => {
      const bytes = Buffer.from(challenge, 'base64url');
      if (bytes.length !== RANDOM_BYTES + TIME_BYTES + MAC_BYTES) return undefined;
      const body = bytes.subarray(0, -MAC_BYTES);
      if (!keys.some((key) => timingSafeEqual(macOf(key, body), bytes.subarray(-MAC_BYTES)))) return undefined;
      const expires = new Date(body.readUIntBE(RANDOM_BYTES, TIME_BYTES));
      return expires > now ? expires : undefined;
    },
  };
}
