/**
 * Writes packages/vectors.json: deliveries as the engine signs and encrypts them, and forged ones, with what a receiver must make of
 * each. The tests of packages/receiver and packages/receiver-python read it. `node scripts/receiver-vectors.ts`; the encrypted bodies
 * differ with every run.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  ENCRYPTED_TYPE,
  KEY,
  NOW,
  OTHER,
  sealed,
  sent,
  TYPE,
  type Sent,
} from '../test/clients/receiver/signed-delivery.ts';

export const VECTORS = join(import.meta.dirname, '../packages/vectors.json');

export type Vector = {
  name: string;
  /** Names and values as they arrive; a list is a header that arrived more than once. */
  headers: Record<string, string | string[]>;
  bodyBase64: string;
  keys: string[];
  headerPrefix: string;
  /** The clock of the receiver, in seconds since 1970. */
  now: number;
} & ({ accepted: Accepted } | { rejected: string });

type Accepted = {
  id: string;
  event: string;
  timestamp: number;
  storeId: number;
  storeDomain: string;
  attempt: number;
  resourceVersion: number;
  isRefeed: boolean;
  isTest: boolean;
  contentType: string;
  bodyBase64: string;
};

const SENT_AT = NOW.getTime() / 1000;
const PLAIN = Buffer.from('{"id":70012,"name":"Zoë"}');
const NEXT = 'a key of one’s own';
/** Their base64 is empty, cut off, without padding, with a stray bit, of the other alphabet, or with a blank in it. */
const NOT_DECODED = ['whsec_', 'whsec_A', 'whsec_QUI', 'whsec_QUJ=', 'whsec_-_-_', 'whsec_QUFB QUFB', 'whsec_é==='];
/** The key pairs of RFC 8032 §7.1, tests 1 and 2. */
const SIGNING = 'whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=';
const PUBLIC = 'whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=';
const OTHER_SIGNING = 'whsk_TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=';
const OTHER_PUBLIC = 'whpk_PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=';
const STANDARD = 'webhook-signature';
const HEX = 'service-webhook-signature';
const GOOD = { alg: 'dir', enc: 'A256GCM' };

type Given = { keys?: string[]; headerPrefix?: string; now?: number };
const vector = (name: string, { headers, body }: Pick<Vector, 'headers'> & { body: Uint8Array }, given: Given) => ({
  name,
  headers,
  bodyBase64: Buffer.from(body).toString('base64'),
  keys: given.keys ?? [KEY],
  headerPrefix: given.headerPrefix ?? 'Service',
  now: given.now ?? SENT_AT,
});

type Result = { body?: Uint8Array; contentType?: string; isTest?: boolean };
function accepted(
  name: string,
  delivery: Pick<Vector, 'headers'> & { body: Uint8Array },
  given: Given & Result = {},
): Vector {
  const result: Accepted = {
    id: header(given.isTest === true ? sample : plain, 'webhook-id'),
    event: 'transaction/created',
    timestamp: SENT_AT,
    storeId: 1001,
    storeDomain: 'store.example.com',
    attempt: 2,
    resourceVersion: 4,
    isRefeed: false,
    isTest: given.isTest ?? false,
    contentType: given.contentType ?? TYPE,
    bodyBase64: Buffer.from(given.body ?? PLAIN).toString('base64'),
  };
  return { ...vector(name, delivery, given), accepted: result };
}
const rejected = (name: string, code: string, delivery: Sent, given: Given = {}): Vector => ({
  ...vector(name, delivery, given),
  rejected: code,
});

const plain = sent();
const sample = sent({ isTest: true });
const signed = sent({ key: SIGNING });
const having = (headers: Record<string, string>, delivery: Sent = plain): Sent => ({
  ...delivery,
  headers: { ...delivery.headers, ...headers },
});
function without(name: string, delivery: Sent = plain): Sent {
  const { [name]: _left, ...headers } = delivery.headers;
  return { ...delivery, headers };
}
const header = (delivery: Sent, name: string): string => {
  const value = delivery.headers[name];
  if (value === undefined) throw new Error(`no header ${name}`);
  return value;
};
const foreign = sent({ key: OTHER });
const afterWrong = (count: number) =>
  having({ [STANDARD]: `${`${header(foreign, STANDARD)} `.repeat(count)}${header(plain, STANDARD)} v1a,AAAA` });

function acceptedVectors(): Vector[] {
  const rotating = sent({ next: NEXT });
  const encrypted = sent({ isEncrypted: true });
  const rotatingEncrypted = sent({ isEncrypted: true, next: NEXT });
  const loud = Object.entries(plain.headers).map(
    ([name, value]) => [name.toUpperCase(), [value]] as [string, string[]],
  );
  const rotatingSigned = sent({ key: SIGNING, next: OTHER_SIGNING });
  const becomingSigned = sent({ next: SIGNING });
  const binary = Uint8Array.from({ length: 256 }, (_, at) => at);
  return [
    accepted('a delivery', plain),
    accepted('a test delivery', sample, { isTest: true }),
    accepted('a test delivery without the header of one', without('service-webhook-test', sample), { isTest: true }),
    accepted('an event with the header of a test delivery', having({ 'service-webhook-test': 'true' })),
    accepted('both keys, before a rotation', plain, { keys: [NEXT, KEY] }),
    accepted('the old key, during a rotation', rotating),
    accepted('the new key, during a rotation', rotating, { keys: [NEXT] }),
    accepted('both keys, during a rotation', rotating, { keys: [NEXT, KEY] }),
    accepted('the new key, after a rotation', sent({ key: NEXT }), { keys: [KEY, NEXT] }),
    accepted('an empty key beside the right one', plain, { keys: ['', KEY] }),
    accepted('an encrypted delivery', encrypted),
    accepted('an encrypted delivery, with both keys', encrypted, { keys: [OTHER, KEY] }),
    accepted('an encrypted delivery, during a rotation', rotatingEncrypted, { keys: [NEXT, KEY] }),
    accepted(
      'an encrypted delivery whose type has a parameter',
      having({ 'content-type': `${ENCRYPTED_TYPE}; x=y` }, encrypted),
    ),
    accepted('a JWE without cty', sealed(GOOD), { body: Buffer.from('{}'), contentType: 'application/octet-stream' }),
    accepted('a JWE with a complete cty', sealed({ ...GOOD, cty: 'text/plain' }), {
      body: Buffer.from('{}'),
      contentType: 'text/plain',
    }),
    accepted('300 seconds late', plain, { now: SENT_AT + 300 }),
    accepted('300 seconds early', plain, { now: SENT_AT - 300 }),
    accepted('another prefix of headers', sent({ headerPrefix: 'Acme-Shop' }), { headerPrefix: 'Acme-Shop' }),
    accepted('names in upper case, and lists', { headers: Object.fromEntries(loud), body: plain.body }, {}),
    accepted('an empty body', sent({ body: new Uint8Array() }), { body: new Uint8Array() }),
    accepted('a body that is not text', sent({ body: binary }), { body: binary }),
    accepted('the eighth signature, and an unknown version', afterWrong(7)),
    accepted('an Ed25519 signature', signed, { keys: [PUBLIC] }),
    accepted('an Ed25519 signature, with a secret beside the public key', signed, { keys: [KEY, PUBLIC] }),
    accepted('an Ed25519 signature of a test delivery', sent({ key: SIGNING, isTest: true }), {
      keys: [PUBLIC],
      isTest: true,
    }),
    accepted('the old public key, during a rotation', rotatingSigned, { keys: [PUBLIC] }),
    accepted('the new public key, during a rotation', rotatingSigned, { keys: [OTHER_PUBLIC] }),
    accepted('the secret, during a rotation to an Ed25519 key', becomingSigned),
    accepted('the public key, during a rotation to an Ed25519 key', becomingSigned, { keys: [PUBLIC] }),
    accepted('the secret, during a rotation from an Ed25519 key', sent({ key: SIGNING, next: KEY }), {
      keys: [PUBLIC, KEY],
    }),
    accepted('the secret alone, during a rotation from an Ed25519 key', sent({ key: SIGNING, next: KEY })),
    ...NOT_DECODED.map((key) => accepted(`the key ${key}`, sent({ key }), { keys: [key] })),
  ];
}

const jwe = (text: string): Sent => sent({ body: Buffer.from(text), contentType: ENCRYPTED_TYPE });

function rejectedVectors(): Vector[] {
  const standard = header(plain, STANDARD);
  const required = Object.keys(plain.headers).filter((name) => /^(webhook|service)-/.test(name));
  const encryptedWithOther = sent({ body: sent({ key: OTHER, isEncrypted: true }).body, contentType: ENCRYPTED_TYPE });
  const stray = standard.replace(/.=$/, (end) => `${String.fromCharCode(end.charCodeAt(0) + 1)}=`);
  return [
    rejected('no key', 'no_key', plain, { keys: [] }),
    rejected('an empty key', 'no_key', plain, { keys: [''] }),
    rejected('another key', 'bad_signature', plain, { keys: [OTHER] }),
    rejected('the new key, before a rotation', 'bad_signature', plain, { keys: [NEXT] }),
    rejected('a changed body', 'bad_signature', { ...plain, body: Buffer.concat([plain.body, Buffer.from(' ')]) }),
    rejected('another id', 'bad_signature', having({ 'webhook-id': 'msg_1_1_1' })),
    rejected(
      'a test delivery with the id of an event',
      'bad_signature',
      having({ 'webhook-id': header(plain, 'webhook-id') }, sample),
    ),
    rejected('another time', 'bad_signature', having({ 'webhook-timestamp': String(SENT_AT + 1) })),
    rejected(
      'the signatures of another key in one header',
      'bad_signature',
      having({ [STANDARD]: header(foreign, STANDARD) }),
    ),
    rejected('the signatures of another key in the other', 'bad_signature', having({ [HEX]: header(foreign, HEX) })),
    rejected('the ninth signature', 'bad_signature', afterWrong(8)),
    rejected('base64 with a stray bit', 'bad_signature', having({ [STANDARD]: stray })),
    rejected('another version', 'bad_signature', having({ [STANDARD]: standard.replace('v1,', 'v2,') })),
    rejected('hex in upper case', 'bad_signature', having({ [HEX]: header(plain, HEX).toUpperCase() })),
    rejected(
      'two hex signatures in one header',
      'bad_signature',
      having({ [HEX]: `${header(plain, HEX)} ${header(plain, HEX)}` }),
    ),
    ...required.map((name) => rejected(`without ${name}`, 'missing_header', without(name))),
    rejected('another prefix', 'missing_header', plain, { headerPrefix: 'Acme' }),
    rejected('a number with an exponent', 'bad_header', having({ 'service-store-id': '1e3' })),
    rejected('a number with digits of another script', 'bad_header', having({ 'service-store-id': '١٠٠١' })),
    rejected('301 seconds late', 'too_old', plain, { now: SENT_AT + 301 }),
    rejected('301 seconds early', 'too_new', plain, { now: SENT_AT - 301 }),
    rejected('encrypted with another key', 'not_decrypted', encryptedWithOther),
    rejected('another alg', 'not_decrypted', sealed({ ...GOOD, alg: 'A256KW' })),
    rejected('another enc', 'not_decrypted', sealed({ ...GOOD, enc: 'A128GCM' })),
    rejected('zip', 'not_decrypted', sealed({ ...GOOD, zip: 'DEF' })),
    rejected('crit', 'not_decrypted', sealed({ ...GOOD, crit: ['exp'] })),
    rejected('a wrapped key', 'not_decrypted', sealed(GOOD, { wrapped: 'AAAA' })),
    rejected('a nonce of 16 bytes', 'not_decrypted', sealed(GOOD, { nonceBytes: 16 })),
    rejected('a JWE of three parts', 'not_decrypted', jwe('a.b.c')),
    rejected('a JWE whose head is no JSON', 'not_decrypted', jwe('bm8..AAAA.AAAA.AAAA')),
    rejected('a JWE with padding', 'not_decrypted', jwe('e30=..AAAA.AAAA.AAAA')),
    rejected('a JWE that is not ASCII', 'not_decrypted', jwe('é..é.é.é')),
  ];
}

function rejectedSignings(): Vector[] {
  return [
    rejected('another public key', 'bad_signature', signed, { keys: [OTHER_PUBLIC] }),
    rejected(
      'an Ed25519 signature of a changed body',
      'bad_signature',
      { ...signed, body: Buffer.from('{}') },
      {
        keys: [PUBLIC],
      },
    ),
    rejected('an Ed25519 signature of another id', 'bad_signature', having({ 'webhook-id': 'msg_1_1_1' }, signed), {
      keys: [PUBLIC],
    }),
    rejected('an Ed25519 signature without the hex one, for a secret', 'missing_header', signed),
    rejected(
      'an Ed25519 signature as one of HMAC',
      'bad_signature',
      having({ [STANDARD]: header(signed, STANDARD).replace('v1a,', 'v1,') }, signed),
      { keys: [PUBLIC] },
    ),
    // What an attacker makes who knows the public key: signatures with its text, and with its bytes, as a secret.
    ...[PUBLIC, PUBLIC.slice(0, -4), PUBLIC.replace('whpk_', 'whsec_')].map((key) =>
      rejected(`HMAC with the text ${key}`, 'bad_signature', sent({ key }), {
        keys: [key.startsWith('whpk_') ? key : PUBLIC],
      }),
    ),
    ...[` ${PUBLIC}`, `"${PUBLIC}"`, PUBLIC.replace('whpk_', 'WHPK_')].map((key) =>
      rejected(`HMAC with the key that was written ${key}`, 'bad_signature', sent({ key }), { keys: [KEY, key] }),
    ),
    rejected('a public key that is cut off', 'bad_signature', signed, { keys: [PUBLIC.slice(0, -2)] }),
    rejected('the private key', 'missing_header', signed, { keys: [SIGNING] }),
  ];
}

/** Returns every vector. Two calls differ in the encrypted bodies only. */
export function vectors(): Vector[] {
  return [...acceptedVectors(), ...rejectedVectors(), ...rejectedSignings()];
}

if (import.meta.main) await writeFile(VECTORS, `${JSON.stringify(vectors(), undefined, 1)}\n`);
