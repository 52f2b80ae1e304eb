/** A delivery as the engine's own code builds it: signed, and encrypted on request. */
import { createCipheriv, createHash } from 'node:crypto';
import { encryptBody, ENCRYPTED_TYPE } from '#delivery/attempt/bodies.ts';
import { headersOf } from '#delivery/attempt/attempt-request.ts';

export { ENCRYPTED_TYPE };
export const KEY = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
export const OTHER = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;
export const NOW = new Date('2026-11-20T16:05:03Z');
export const TYPE = 'application/hal+json';

export type Sent = { headers: Record<string, string>; body: Uint8Array };
type Options = {
  body?: Uint8Array;
  key?: string;
  next?: string | null;
  headerPrefix?: string;
  isEncrypted?: boolean;
  isTest?: true;
  now?: Date;
  /** In place of the engine's own type: what an attacker who has the key might send. */
  contentType?: string;
};

export function sent(options: Options = {}): Sent {
  const { key = KEY, next = null, headerPrefix = 'Service', isEncrypted = false, now = NOW } = options;
  const plain = options.body ?? Buffer.from('{"id":70012,"name":"Zoë"}');
  const body = isEncrypted ? encryptBody(plain, TYPE, key) : plain;
  const list = headersOf({
    event: {
      id: 7,
      nonce: 3,
      storeId: 1001,
      type: 'transaction',
      action: 'created',
      resourceId: '70012',
      version: 4,
      baseUrl: 'https://api.example.com',
      dateCreated: now,
      body: '',
      traceContext: null,
      ...(options.isTest && { isTest: options.isTest }),
    },
    target: {
      headers: {},
      storeDomain: 'store.example.com',
      format: 'json',
      url: new URL('https://hooks.example.com/'),
    },
    keys: { current: key, next },
    webhookId: 2281,
    attempt: 2,
    body,
    contentType: options.contentType ?? (isEncrypted ? ENCRYPTED_TYPE : TYPE),
    now,
    headerPrefix,
    userAgent: 'Halcyon/test',
  });
  // As node:http shows them: in lower case.
  const pairs = list.flatMap((name, at) => (at % 2 === 0 ? [[name.toLowerCase(), list[at + 1] ?? ''] as const] : []));
  return { headers: Object.fromEntries(pairs), body };
}

export function cipherKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** A delivery with a JWE of any header and shape, correctly signed. */
export function sealed(head: object, { nonceBytes = 12, wrapped = '' } = {}): Sent {
  const first = Buffer.from(JSON.stringify(head)).toString('base64url');
  const nonce = Buffer.alloc(nonceBytes, 1);
  const cipher = createCipheriv('aes-256-gcm', cipherKey(KEY), nonce).setAAD(Buffer.from(first));
  const text = Buffer.concat([cipher.update('{}'), cipher.final()]);
  const rest = [nonce, text, cipher.getAuthTag()].map((part) => part.toString('base64url'));
  return sent({ body: Buffer.from([first, wrapped, ...rest].join('.')), contentType: ENCRYPTED_TYPE });
}
