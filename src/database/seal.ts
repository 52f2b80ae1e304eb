/** Secrets at rest: AES-256-GCM, bound to the row they belong to, so that one cannot be moved to another row. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

export type Sealer = {
  /** `boundTo` names the row, such as `webhook:512`; opening needs the same. */
  seal: (text: string, boundTo: string) => Buffer;
  /** Throws where the key is another, the row is another, or a bit was changed. */
  open: (sealed: Buffer, boundTo: string) => string;
};

const VERSION = 1;
const KEY_ID_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEAD_BYTES = 1 + KEY_ID_BYTES;

/** Tells keys apart, and nothing of them. */
export const keyIdOf = (key: Buffer): Buffer => createHash('sha256').update(key).digest().subarray(0, KEY_ID_BYTES);

/** The envelope is version · key id · nonce · ciphertext · tag; the key id tells which key a rotation must use. */
export const createSealer = (key: Buffer): Sealer => {
  const head = Buffer.concat([Buffer.of(VERSION), keyIdOf(key)]);
  return {
    seal: (text, boundTo) => {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(boundTo));
      return Buffer.concat([head, nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    },
    open: (sealed, boundTo) => {
      if (!sealed.subarray(0, HEAD_BYTES).equals(head)) {
        throw new Error(`The secret of ${boundTo} is sealed with another key than HALCYON_SECRET_KEY`);
      }
      const nonce = sealed.subarray(HEAD_BYTES, HEAD_BYTES + NONCE_BYTES);
      const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES }).setAAD(
        Buffer.from(boundTo),
      );
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      const text = decipher.update(sealed.subarray(HEAD_BYTES + NONCE_BYTES, -TAG_BYTES));
      return Buffer.concat([text, decipher.final()]).toString('utf8');
    },
  };
};
