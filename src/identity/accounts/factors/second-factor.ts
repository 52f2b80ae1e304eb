/**
 * Second factors: an authenticator app (TOTP of RFC 6238), recovery codes and passkeys (WebAuthn Level 3), and the check of what a person
 * submits.
 */
import { Secret, TOTP } from 'otpauth';
import type { Queryable, Sql } from '#db/pool.ts';
import type { Sealer, Vault } from '#db/seal.ts';
import { vaultOf } from '#db/sealed-tables.ts';
import {
  consumeRecoveryCode,
  consumeStep,
  findApp,
  findFactors,
  replaceApp,
  replaceRecoveryCodes,
  type Factors,
  consumeChallenge,
  findPasskey,
  insertPasskey,
  touchPasskey,
  type PasskeyRow,
} from './factors-sql.ts';
import { createHash, randomBytes } from 'node:crypto';
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import type { RawRequest } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Credentials } from '../accounts-sql.ts';
import { originOf, recordAuditEntry } from '../audit.ts';
import type { Devices, Throttle } from '../throttle.ts';
import { factorChangedMail } from '../account-mails.ts';
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server';
import { carried, CARRIED_MS, carry } from '../sessions.ts';

// An authenticator app (TOTP, RFC 6238): six digits, which change every 30 seconds. Recovery codes take its place.

const PERIOD_SECONDS = 30;
const DIGITS = 6;
const SECRET_BYTES = 20;
/** Accepts the codes of one step before and after the current one: clocks of phones differ (RFC 6238 §5.2). */
const SKEW_STEPS = 1;

const CODE_PATTERN = /^\d{6}$/;

function secretBoundTo(userId: number): string {
  return `authenticator-app:${userId}`;
}

const totpOf = (secret: string, account?: { issuer: string; label: string }): TOTP =>
  new TOTP({
    ...account,
    algorithm: 'SHA1',
    digits: DIGITS,
    period: PERIOD_SECONDS,
    secret: Secret.fromBase32(secret),
  });

/** Returns a new secret in base 32. */
export function createSecret(): string {
  return new Secret({ size: SECRET_BYTES }).base32;
}

/** Returns the `otpauth:` address that apps read from a QR code. */
export function addressOf(secret: string, account: { issuer: string; label: string }): string {
  return totpOf(secret, account).toString();
}

/** Returns the time step of a code; undefined if it is not the code of a step that is accepted now. */
function stepOf(secret: string, code: string, now: Date): number | undefined {
  const delta = totpOf(secret).validate({ token: code, timestamp: now.getTime(), window: SKEW_STEPS });
  return delta === null ? undefined : Math.floor(now.getTime() / 1_000 / PERIOD_SECONDS) + delta;
}

/** Stores the secret if the code belongs to it; replaces an earlier app. The code cannot be used again. */
export async function storeApp(
  sql: Queryable,
  sealer: Sealer,
  { userId, secret, code, now }: { userId: number; secret: string; code: string; now: Date },
): Promise<boolean> {
  const lastStep = stepOf(secret, code, now);
  if (lastStep === undefined) return false;
  await replaceApp(sql, { userId, secret: sealer.seal(secret, secretBoundTo(userId)), lastStep, now });
  return true;
}

/** Recovery codes of a person, each of which replaces a lost factor once. */
const CODES = 10;
/** Each has 5 bits, as 256 is a multiple of 32. A plain hash suffices from 112 bits on (OWASP ASVS 5.0, 6.5.2). */
const CODE_CHARACTERS = 24;
const GROUP = /.{6}(?!$)/g;
/** Base 32 without letters and digits that look alike (Crockford). */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

function createCode(): string {
  const characters = Array.from(randomBytes(CODE_CHARACTERS), (byte) => ALPHABET.charAt(byte % ALPHABET.length));
  return characters.join('').replace(GROUP, '$&-');
}

/** Ignores case, spaces and hyphens, and reads letters that look like digits as these. */
const canonical = (code: string): string =>
  code.toLowerCase().replaceAll(/[\s-]/g, '').replaceAll('o', '0').replaceAll(/[il]/g, '1');

const hashOf = (code: string): Buffer => createHash('sha256').update(canonical(code)).digest();

/** Replaces the codes of the user and returns the new ones, which are shown once. */
export async function renewRecoveryCodes(sql: Queryable, userId: number): Promise<string[]> {
  const codes = Array.from({ length: CODES }, createCode);
  await replaceRecoveryCodes(sql, { userId, hashes: codes.map(hashOf) });
  return codes;
}

export type Verified = { kind: 'right' } | { kind: 'wrong' } | { kind: 'too many'; retryAfterSeconds: number };

type Verifying = Pick<RawRequest, 'address' | 'headers' | 'cookies' | 'now' | 'form'>;

export function hasSecondFactor({ passkeys, hasApp }: Factors): boolean {
  return hasApp || passkeys.length > 0;
}

export type SecondFactor = ReturnType<typeof createSecondFactor>;

export function createSecondFactor(
  { sql, sealer, mailer, config: { authUrl } }: Runtime,
  { passkeys, throttle, devices }: { passkeys: Passkeys; throttle: Throttle; devices: Devices },
) {
  const acceptRecovery = async (request: Verifying, user: Credentials, code: string): Promise<boolean> => {
    if (!(await consumeRecoveryCode(sql, user.id, hashOf(code)))) return false;
    const origin = originOf(request);
    await recordAuditEntry(sql, { action: 'recovery_code_used', userId: user.id, origin, now: request.now });
    const { recoveryCodes } = await findFactors(sql, user.id);
    const what = `a recovery code was used; ${recoveryCodes} are left.`;
    mailer?.send(factorChangedMail({ to: user.email, what, authUrl }));
    return true;
  };

  const accept = async (request: Verifying, user: Credentials): Promise<boolean> => {
    const { form, now } = request;
    const passkey = form.get(VERIFICATION_FIELDS.passkey) ?? '';
    if (passkey !== '') return (await passkeys.accept(sql, passkey, now)) === user.id;
    const code = (form.get(VERIFICATION_FIELDS.code) ?? '').trim();
    const digits = code.replaceAll(/\s/g, '');
    if (!CODE_PATTERN.test(digits)) return acceptRecovery(request, user, code);
    const sealed = await findApp(sql, user.id);
    if (sealed === undefined) return false;
    const step = stepOf(sealer.open(sealed, secretBoundTo(user.id)), digits, now);
    // Each code is accepted once (RFC 6238 §5.2).
    return step !== undefined && consumeStep(sql, { userId: user.id, step });
  };

  return {
    /** Verifies the fields `verification_code` and `verification_passkey`. A code is accepted once. */
    verify: async (request: Verifying, user: Credentials): Promise<Verified> => {
      const { now } = request;
      // The person knows the password already. A browser that has signed in before has its own bucket, so another one cannot use
      // up its attempts.
      const device = devices.recognize(request, user);
      const bucket =
        device === undefined
          ? ({ limit: 'codes of account', subject: String(user.id) } as const)
          : ({ limit: 'codes by device', subject: device } as const);
      const taken = await throttle.take([bucket], now);
      if (!taken.allowed) return { kind: 'too many', retryAfterSeconds: taken.retryAfterSeconds };
      if (await accept(request, user)) {
        await taken.giveBack();
        return { kind: 'right' };
      }
      const origin = originOf(request);
      await recordAuditEntry(sql, { action: 'second_factor_failed', userId: user.id, origin, now });
      return { kind: 'wrong' };
    },
  };
}

export function createAppVault(sql: Sql): Vault {
  return vaultOf(sql, {
    name: 'authenticator apps',
    seals: 'authenticator_app',
    key: { user_id: 'bigint' },
    columns: ['secret'],
    boundTo: ({ user_id: userId }) => secretBoundTo(userId),
  });
}

// Passkeys. A challenge is sealed by the server instead of stored, and marked as used once a passkey has signed it, so visitors of the sign-in
// page write no rows.

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

/** Imports the library when a person comes: 14 MiB and 100 ms of a start. */
const webAuthn = () => import('@simplewebauthn/server');

/** The library throws for a response that is not valid: its content decides where. */
const attempt = async <T>(verify: () => Promise<T>): Promise<T | undefined> => verify().catch(() => undefined);

/** The relying party (WebAuthn): the host of the pages, for which browsers keep the passkeys. */
type Party = { rpID: string; origin: string; sealer: Sealer };

const CHALLENGE = 'passkey challenge';

async function acceptPasskey(
  sql: Queryable,
  { rpID, origin, sealer }: Party,
  { text, now }: { text: string; now: Date },
): Promise<number | undefined> {
  const response = parseResponse(text);
  const passkey = response && (await findPasskey(sql, Buffer.from(response.id, 'base64url')));
  if (passkey === undefined) return undefined;
  let signed: { hash: Buffer; expires: Date } | undefined;
  const { verifyAuthenticationResponse } = await webAuthn();
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
  const { verifyRegistrationResponse } = await webAuthn();
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
    signInOptions: async (now: Date, passkeys: readonly PasskeyRow[] = []): Promise<string> => {
      const { generateAuthenticationOptions } = await webAuthn();
      const options = await generateAuthenticationOptions({
        ...challengeFor(now),
        userVerification: 'required',
        ...(passkeys.length > 0 && { allowCredentials: describe(passkeys) }),
      });
      return JSON.stringify(options);
    },
    /** Returns the options for `navigator.credentials.create`, as JSON. */
    creationOptions: async (user: User, passkeys: readonly PasskeyRow[], now: Date): Promise<string> => {
      const { generateRegistrationOptions } = await webAuthn();
      const options = await generateRegistrationOptions({
        rpName: new URL(authUrl).host,
        userID: new Uint8Array(Buffer.from(String(user.id))),
        userName: user.email,
        ...challengeFor(now),
        attestationType: 'none',
        supportedAlgorithmIDs: ALGORITHMS,
        excludeCredentials: describe(passkeys),
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      });
      return JSON.stringify(options);
    },
    /** Returns the id of the user whose passkey signed the response; undefined if it is not valid. Accepts each response once. */
    accept: (sql: Queryable, text: string, now: Date) => acceptPasskey(sql, party, { text, now }),
    /** Stores the passkey of a registration response. Returns false if it is not valid or registered already. */
    store: (sql: Queryable, given: Registration) => store(sql, party, given),
  };
}
