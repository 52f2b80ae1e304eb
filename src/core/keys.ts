/**
 * Keys for one purpose while one of them takes over from another: what is made is made with the first, and what was made
 * with any of them counts.
 */
import { createHmac } from 'node:crypto';

export type Keys = readonly [Buffer, ...Buffer[]];

/** A key for this purpose alone of each secret key, in their order: HMAC-SHA256, 32 bytes. */
export const deriveKeys = ([secret, ...others]: Keys, purpose: string): Keys => {
  const derive = (key: Buffer): Buffer => createHmac('sha256', key).update(purpose).digest();
  return [derive(secret), ...others.map(derive)];
};
