/**
 * Passkeys (WebAuthn Level 3). A challenge is sealed by the server instead of stored, and marked as used once a passkey has signed
 * it, so visitors of the sign-in page write no rows.
 */
import { createHash } from 'node:crypto';
import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
  type AuthenticationResponseJSON,
  type RegistrationResponseJSON,
} from '@simplewebauthn/server';
import type { Queryable } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { carried, CARRIED_MS, carry } from '../sessions.ts';
import { consumeChallenge, findPasskey, insertPasskey, touchPasskey, type PasskeyRow } from './factors-sql.ts';

export const PASSKEYS_MAX = 20;
export const PASSKEY_NAME_LENGTH_MAX = 60;

/** A response has less than 3 KB without an attestation. */
const RESPONSE_LENGTH_MAX = 16_384;
/** EdDSA, ES256 and RS256 (RFC 9053): what authenticators have. The default of the library tests experimental algorithms of Node. */
const ALGORITHMS = [-8, -7, -257];
const TRANSPORTS: ReadonlySet<string> = new Set(['ble', 'cable', 'hybrid', 'internal', 'nfc', 'smart-card', 'usb']);

type User = { id: number; email: string };

/** Returns the parsed response with a credential id; undefined if the text is no such response. */
function parseResponse(text: string): { id: string } | undefined {
  if (text.length > RESPONSE_LENGTH_MAX) return undefined;
  try {
    const parsed = JSON.parse(text) as unknown;
    const isResponse = typeof parsed === 'object' && parsed !== null && 'id' in parsed && typeof parsed.id === 'string';
    return isResponse ? (parsed as { id: string }) : undefined;
  } catch {
    return undefined;
  }
}

const describe = (passkeys: readonly PasskeyRow[]) =>
  passkeys.map(({ credentialId, transports }) => ({
    id: credentialId.toString('base64url'),
    transports: [...transports],
  }));

/** The library throws for a response that is not valid: its content decides where. */
const attempt = async <T>(verify: () => Promise<T>): Promise<T | undefined> => verify().catch(() => undefined);

/** The relying party (WebAuthn): the host of the pages, for which browsers keep the passkeys. */
type Party = { rpID: string; origin: string; sealer: Sealer };

const CHALLENGE = 'passkey challenge';

async function accept(
  sql: Queryable,
  { rpID, origin, sealer }: Party,
  { text, now }: { text: string; now: Date },
): Promise<number | undefined> {
  const response = parseResponse(text);
  const passkey = response && (await findPasskey(sql, Buffer.from(response.id, 'base64url')));
  if (passkey === undefined) return undefined;
  let signed: { hash: Buffer; expires: Date } | undefined;
  const verified = await attempt(() =>
    verifyAuthenticationResponse({
      response: response as AuthenticationResponseJSON,
      expectedChallenge: (challenge) => {
        const expires = carried(sealer, CHALLENGE, challenge, now)?.until;
        signed = expires && { hash: createHash('sha256').update(challenge).digest(), expires };
        return signed !== undefined;
      },
      expectedOrigin: origin,
      expectedRPID: rpID,
      credential: {
        id: response?.id ?? '',
        publicKey: new Uint8Array(passkey.publicKey),
        counter: passkey.signCount,
      },
      requireUserVerification: true,
    }),
  );
  if (verified?.verified !== true || signed === undefined) return undefined;
  if (!(await consumeChallenge(sql, signed.hash, signed.expires))) return undefined;
  const { newCounter: signCount } = verified.authenticationInfo;
  return (await touchPasskey(sql, { id: passkey.id, signCount, now })) ? passkey.userId : undefined;
}

type Registration = { userId: number; response: string; name: string; now: Date };

async function store(
  sql: Queryable,
  { rpID, origin, sealer }: Party,
  { userId, response: text, name, now }: Registration,
): Promise<boolean> {
  const response = parseResponse(text);
  if (response === undefined) return false;
  const verified = await attempt(() =>
    verifyRegistrationResponse({
      response: response as RegistrationResponseJSON,
      expectedChallenge: (challenge) => carried(sealer, CHALLENGE, challenge, now) !== undefined,
      expectedOrigin: origin,
      expectedRPID: rpID,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    }),
  );
  if (verified?.registrationInfo === undefined) return false;
  const { id, publicKey, counter, transports = [] } = verified.registrationInfo.credential;
  return insertPasskey(sql, {
    userId,
    credentialId: Buffer.from(id, 'base64url'),
    publicKey,
    signCount: counter,
    transports: transports.filter((one) => TRANSPORTS.has(one)),
    name,
    now,
  });
}

export type Passkeys = ReturnType<typeof createPasskeys>;

export function createPasskeys({ sealer, config: { authUrl } }: Pick<Runtime, 'sealer' | 'config'>) {
  const { hostname: rpID, origin } = new URL(authUrl);
  const party = { rpID, origin, sealer };
  const challengeFor = (now: Date) => {
    const challenge = Buffer.from(carry(sealer, CHALLENGE, null, now), 'base64url');
    return { rpID, challenge: new Uint8Array(challenge), timeout: CARRIED_MS };
  };
  return {
    /** Returns the options for `navigator.credentials.get`, as JSON. Without `passkeys` any discoverable one can be used. */
    signInOptions: async (now: Date, passkeys: readonly PasskeyRow[] = []): Promise<string> =>
      JSON.stringify(
        await generateAuthenticationOptions({
          ...challengeFor(now),
          userVerification: 'required',
          ...(passkeys.length > 0 && { allowCredentials: describe(passkeys) }),
        }),
      ),
    /** Returns the options for `navigator.credentials.create`, as JSON. */
    creationOptions: async (user: User, passkeys: readonly PasskeyRow[], now: Date): Promise<string> =>
      JSON.stringify(
        await generateRegistrationOptions({
          rpName: new URL(authUrl).host,
          userID: new Uint8Array(Buffer.from(String(user.id))),
          userName: user.email,
          ...challengeFor(now),
          attestationType: 'none',
          supportedAlgorithmIDs: ALGORITHMS,
          excludeCredentials: describe(passkeys),
          authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        }),
      ),
    /** Returns the id of the user whose passkey signed the response; undefined if it is not valid. Accepts each response once. */
    accept: (sql: Queryable, text: string, now: Date) => accept(sql, party, { text, now }),
    /** Stores the passkey of a registration response. Returns false if it is not valid or registered already. */
    store: (sql: Queryable, given: Registration) => store(sql, party, given),
  };
}
