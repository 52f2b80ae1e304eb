/** Keys for one purpose during a rotation: the first one is used for new data, all are valid for existing data. */
import { createHmac } from 'node:crypto';

export type Keys = readonly [Buffer, ...Buffer[]];

/** Derives a key for this purpose from each secret key, in order: HMAC-SHA256, 32 bytes. */
export function deriveKeys([secret, ...others]: Keys, purpose: string): Keys {
  const derive = (key: Buffer): Buffer => createHmac('sha256', key).update(purpose).digest();
  return [derive(secret), ...others.map(derive)];
}
