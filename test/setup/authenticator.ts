/** A WebAuthn authenticator in software: makes the responses that a browser sends (WebAuthn Level 3, §5.2 and §6.1). */
import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';

const sha256 = (data: string | Uint8Array): Buffer => createHash('sha256').update(data).digest();
const encode = (data: Uint8Array): string => Buffer.from(data).toString('base64url');

/** Encodes the few CBOR types (RFC 8949) that attestation objects and COSE keys use. */
function cbor(value: number | string | Uint8Array | Map<number | string, unknown>): Buffer {
  const head = (major: number, n: number): Buffer =>
    n < 24
      ? Buffer.of((major << 5) | n)
      : n < 256
        ? Buffer.of((major << 5) | 24, n)
        : Buffer.of((major << 5) | 25, n >> 8, n & 255);
  if (typeof value === 'number') return value >= 0 ? head(0, value) : head(1, -1 - value);
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([head(2, value.length), value]);
  const pairs = [...value].flatMap(([key, item]) => [cbor(key), cbor(item as Parameters<typeof cbor>[0])]);
  return Buffer.concat([head(5, value.size), ...pairs]);
}

/** Algorithm, type and coordinates of a P-256 key (RFC 9053 §7.1). */
function coseKey(key: KeyObject): Buffer {
  const { x = '', y = '' } = key.export({ format: 'jwk' });
  const part = (text: string) => new Uint8Array(Buffer.from(text, 'base64url'));
  return cbor(
    new Map<number, unknown>([
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, part(x)],
      [-3, part(y)],
    ]),
  );
}

const FLAGS = { present: 0x01, verified: 0x04, attested: 0x40 };

/** What a response says instead of the truth. */
export type Forged = { origin?: string; isVerified?: boolean; count?: number; challenge?: string };

/** `origin` is that of the pages. Without `counts` the counter stays 0, as it does for passkeys that are synchronised. */
export function createAuthenticator(origin: string, { counts = false } = {}) {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const id = randomBytes(16);
  let used = 0;
  const dataOf = (rpId: string, { isVerified = true, count }: Forged, attested = Buffer.alloc(0)): Buffer => {
    const flags = FLAGS.present | (isVerified ? FLAGS.verified : 0) | (attested.length > 0 ? FLAGS.attested : 0);
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(count ?? (counts ? used : 0));
    return Buffer.concat([sha256(rpId), Buffer.of(flags), counter, attested]);
  };
  const clientDataOf = (type: string, challenge: string, forged: Forged): Buffer =>
    Buffer.from(
      JSON.stringify({
        type,
        challenge: forged.challenge ?? challenge,
        origin: forged.origin ?? origin,
        crossOrigin: false,
      }),
    );
  const whole = (response: object): string =>
    JSON.stringify({ id: encode(id), rawId: encode(id), type: 'public-key', clientExtensionResults: {}, response });
  return {
    /** Returns the response to the options of `navigator.credentials.create`. */
    create: (options: string, forged: Forged = {}): string => {
      const { challenge, rp } = JSON.parse(options) as { challenge: string; rp: { id: string } };
      const attested = Buffer.concat([Buffer.alloc(16), Buffer.of(0, id.length), id, coseKey(publicKey)]);
      const authData = new Uint8Array(dataOf(rp.id, forged, attested));
      const attestation = new Map<string, unknown>([
        ['fmt', 'none'],
        ['attStmt', new Map()],
        ['authData', authData],
      ]);
      const clientDataJSON = encode(clientDataOf('webauthn.create', challenge, forged));
      return whole({ clientDataJSON, attestationObject: encode(cbor(attestation)), transports: ['internal'] });
    },
    /** Returns the response to the options of `navigator.credentials.get`. */
    get: (options: string, forged: Forged = {}): string => {
      const { challenge, rpId } = JSON.parse(options) as { challenge: string; rpId: string };
      used += 1;
      const authenticatorData = dataOf(rpId, forged);
      const clientData = clientDataOf('webauthn.get', challenge, forged);
      const signature = sign('sha256', Buffer.concat([authenticatorData, sha256(clientData)]), privateKey);
      return whole({
        clientDataJSON: encode(clientData),
        authenticatorData: encode(authenticatorData),
        signature: encode(signature),
      });
    },
  };
}
