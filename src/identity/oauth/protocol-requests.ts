/**
 * What protocol requests contain: their parameters, what is checked of `resource` (RFC 8707) and PKCE (RFC 7636), and the client that sends
 * them. A confidential client is authenticated by client_id and client_secret, by Basic authentication or in the body (RFC 6749 §2.3.1); a
 * public client, which has no secret, by its client_id.
 */
import { mcpAddressOf } from '#http/root.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { TokenRefusal, tokenErrors } from './oauth-errors.ts';
import { isUtf8 } from 'node:buffer';
import { createHash, timingSafeEqual } from 'node:crypto';
import { addressPrefix } from '#core/address-prefix.ts';
import type { Throttle } from '#identity/accounts/throttle.ts';
import { isSuspendedClient, type ClientClaim } from './grants-sql.ts';
import { hashToken } from './oauth-tokens.ts';
import { whyNotLinkable } from './redirect-uri.ts';

/** The parameters of /token, /device_authorization, /revoke and /introspect. */
const FORM_PARAMETERS = [
  'grant_type',
  'client_id',
  'client_secret',
  'client_assertion',
  'code',
  'redirect_uri',
  'code_verifier',
  'refresh_token',
  'device_code',
  'scope',
  'token',
  // The list rejects repetition of it; otherwise it is ignored: the prefix of a token determines its type (RFC 7009 §2.1, RFC
  // 7662 §2.1).
  'token_type_hint',
] as const;

/** A parameter without a value counts as absent, and unknown parameters are ignored (RFC 6749 §3.2). */
export type Form = Readonly<Partial<Record<(typeof FORM_PARAMETERS)[number], string>>>;

/** Parses the form. Throws `invalid_request` for another content type and for a repeated parameter (RFC 6749 §3.2). */
export function readForm({ contentType, form }: Pick<RawRequest, 'contentType' | 'form'>): Form {
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(contentType)) throw new TokenRefusal(tokenErrors.notAForm);
  const parameters: Partial<Record<(typeof FORM_PARAMETERS)[number], string>> = {};
  for (const name of FORM_PARAMETERS) {
    const [value = '', ...others] = form.getAll(name);
    if (others.length > 0) throw new TokenRefusal(tokenErrors.repeated);
    if (value !== '') parameters[name] = value;
  }
  return parameters;
}

/** The parameters of /authorize. */
const QUERY_PARAMETERS = [
  'client_id',
  'redirect_uri',
  'response_type',
  'scope',
  'state',
  'response_mode',
  'code_challenge',
  'code_challenge_method',
] as const;
type Parameter = (typeof QUERY_PARAMETERS)[number];

export type Parameters = {
  values: Readonly<Partial<Record<Parameter, string>>>;
  /** Repeated parameters. They have no value, because it would be ambiguous. */
  repeated: ReadonlySet<Parameter>;
  /** The values of `resource`, which may be repeated (RFC 8707 §2). */
  resources: readonly string[];
  /** Parameters whose value is not UTF-8 or contains a NUL, and so could not be returned unchanged. */
  unreadable: ReadonlySet<Parameter>;
};

const isParameter = (name: string): name is Parameter => (QUERY_PARAMETERS as readonly string[]).includes(name);

/**
 * Returns whether a pair is valid UTF-8 without NUL. It checks the percent sequences, because after decoding invalid bytes
 * and an intended U+FFFD (`%EF%BF%BD`) are the same. All other characters are ASCII: node:http rejects a request line with
 * other bytes.
 */
function isReadable(raw: string): boolean {
  const decoded = raw.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  const bytes = Buffer.from(decoded, 'latin1');
  return isUtf8(bytes) && !bytes.includes(0);
}

/** Parses `rawQuery` (without `?`) as a form (RFC 6749 §3.1). A parameter without a value counts as absent. */
export function readParameters(rawQuery: string): Parameters {
  const values: Partial<Record<Parameter, string>> = {};
  const seen = new Set<Parameter>();
  const repeated = new Set<Parameter>();
  const unreadable = new Set<Parameter>();
  const resources: string[] = [];
  for (const pair of rawQuery.split('&')) {
    // URLSearchParams strips one leading `?`, so that a `?` at the start of the pair remains part of the name.
    const [[name, value] = ['', '']] = new URLSearchParams(`?${pair}`);
    if (name === 'resource') resources.push(value);
    if (!isParameter(name)) continue;
    if (seen.has(name)) repeated.add(name);
    seen.add(name);
    if (value !== '') values[name] = value;
    if (!isReadable(pair)) unreadable.add(name);
  }
  for (const name of repeated) delete values[name];
  return { values, repeated, resources, unreadable };
}

/** Returns whether all values of `resource` are the API or its endpoint for agents. An empty value counts as absent. */
export function areOwnResources(values: readonly string[], baseUrl: string): boolean {
  const isApi = (value: string): boolean => value === '' || value === baseUrl || value === `${baseUrl}/`;
  return values.every((value) => isApi(value) || value === mcpAddressOf(baseUrl));
}

// PKCE (RFC 7636), S256 only: `plain` gives no protection against an attacker who reads the request.
/** BASE64URL(SHA-256) is 43 characters (RFC 7636 §4.2). */
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;
/** RFC 7636 §4.1. */
const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/;

/**
 * Returns whether the two parameters are valid together: both absent, or a challenge with the method S256. A challenge
 * without a method means `plain` (RFC 7636 §4.3), which is rejected.
 */
export function isValidChallenge(challenge: string | undefined, method: string | undefined): boolean {
  return challenge === undefined ? method === undefined : method === 'S256' && CHALLENGE.test(challenge);
}

/**
 * Returns whether the verifier matches. A verifier without a challenge fails too: an attacker may have stripped the
 * challenge (RFC 9700 §2.1.1).
 */
export function verifierFits(verifier: string | undefined, challenge: string | null): boolean {
  if (verifier === undefined || challenge === null) return verifier === undefined && challenge === null;
  if (!VERIFIER.test(verifier)) return false;
  const computed = createHash('sha256').update(verifier).digest('base64url');
  return computed.length === challenge.length && timingSafeEqual(Buffer.from(computed), Buffer.from(challenge));
}

const CLIENT_ID = /^[A-Za-z0-9_-]{1,64}$/;
const CLIENT_URL_LENGTH_MAX = 255;

/**
 * Returns whether the text can be the address of a metadata document (draft-ietf-oauth-client-id-metadata-document-03 §3). Only the normal
 * form of an address is accepted (no capitals in the host, default port, dot segments or host in Unicode), so that two spellings are not two
 * clients; and no query, because a page that repeats its query would be a document of its host.
 */
export function isClientUrl(text: string): boolean {
  if (text.length > CLIENT_URL_LENGTH_MAX || text.includes('?') || whyNotLinkable(text) !== undefined) return false;
  const { href, hostname } = new URL(text);
  return href === text && !hostname.endsWith('.');
}

/** Returns the host of the metadata document that identifies a client; undefined for the other clients. */
export function documentHost(clientId: string): string | undefined {
  return clientId.startsWith('https://') ? new URL(clientId).host : undefined;
}

/** Returns whether the text can be a client_id. Other text is never passed to a statement. */
export function isClientId(text: string): boolean {
  return CLIENT_ID.test(text) || isClientUrl(text);
}

/** Runs one statement, which returns undefined if the client is not authenticated, and may do more if it is. */
export type FindAuthenticated<Found> = (claim: ClientClaim) => Promise<Found | undefined>;

/**
 * Returns the result of `find` for the client. Throws `invalid_client`: 401, or 429 after many wrong secrets; `unauthorized_client` for a
 * suspended one.
 */
export type AuthenticateClient = <Found>(
  request: RawRequest,
  form: Form,
  find: FindAuthenticated<Found>,
) => Promise<Found>;

type Credentials = { clientId: string; secret: string | undefined };

const formDecode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '));

/**
 * Parses Basic credentials, whose two parts are form-encoded (RFC 6749 §2.3.1); undefined if malformed. An empty secret is
 * treated as absent, because some libraries send a public client's id that way.
 */
function readBasic(authorization: string): Credentials | undefined {
  const encoded = /^Basic +([A-Za-z0-9+/_-]+=*) *$/i.exec(authorization)?.[1];
  const [, clientId, secret] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded ?? '', 'base64').toString()) ?? [];
  if (clientId === undefined || secret === undefined) return undefined;
  try {
    return { clientId: formDecode(clientId), secret: formDecode(secret) || undefined };
  } catch {
    return undefined;
  }
}

/** Throws if a request authenticates in two ways (RFC 6749 §2.3). */
export function requireOneMethod(authorization: string | undefined, form: Form): void {
  const methods = [authorization, form.client_secret, form.client_assertion].filter((given) => given !== undefined);
  if (methods.length > 1) throw new TokenRefusal(tokenErrors.twoMethods);
}

/**
 * Reads the credentials from the header or the body; undefined without any, and for an assertion (RFC 7521 §4.2), which is not supported.
 * Throws for two methods, and for two different ids.
 */
function readCredentials(authorization: string | undefined, form: Form): Credentials | undefined {
  requireOneMethod(authorization, form);
  if (form.client_assertion !== undefined) return undefined;
  if (authorization === undefined)
    return form.client_id === undefined ? undefined : { clientId: form.client_id, secret: form.client_secret };
  const credentials = readBasic(authorization);
  if (credentials !== undefined && form.client_id !== undefined && form.client_id !== credentials.clientId)
    throw new TokenRefusal(tokenErrors.twoClientIds);
  return credentials;
}

const authenticationFailed = (): TokenRefusal => new TokenRefusal(tokenErrors.invalidClient);

/**
 * Authenticates in one statement. A wrong secret then takes a token from the bucket of this client and address; if it is
 * empty, the response is a 429 with `Retry-After`.
 *
 * The right secret always works, even with an empty bucket: secrets are 256 random bits and cannot be guessed, while a
 * bucket that rejected the right secret would let an attacker at the same address lock the owner out. The bucket only slows
 * down programs with a wrong secret.
 */
export function createClientAuthentication({ sql }: Pick<Runtime, 'sql'>, throttle: Throttle): AuthenticateClient {
  return async ({ headers: { authorization }, address, now }, form, find) => {
    const credentials = readCredentials(authorization, form);
    if (credentials === undefined) throw authenticationFailed();
    const { clientId, secret } = credentials;
    const secretHash = secret === undefined ? null : hashToken(secret);
    const claim = { clientId: isClientId(clientId) ? clientId : '', secretHash, now };
    const found = await find(claim);
    if (found !== undefined) return found;
    if (await isSuspendedClient(sql, claim)) throw new TokenRefusal(tokenErrors.suspendedClient);
    // A request without a secret is not a guess.
    if (secret === undefined) throw authenticationFailed();
    const subject = JSON.stringify([clientId, addressPrefix(address)]);
    const taken = await throttle.take([{ limit: 'client from address', subject }], now);
    if (taken.allowed) throw authenticationFailed();
    throw new TokenRefusal(tokenErrors.guessing, { 'Retry-After': String(taken.retryAfterSeconds) });
  };
}

const BASIC_CHALLENGE = { 'WWW-Authenticate': 'Basic realm="halcyon", charset="UTF-8"' };

/**
 * Wraps an endpoint whose steps may throw a `TokenRefusal`: responds with the JSON error of RFC 6749 §5.2, and with a
 * challenge if it is a 401 (RFC 9110 §15.5.2).
 */
export function answeringRefusals(handle: RawHandler): RawHandler {
  return async (request) => {
    try {
      return await handle(request);
    } catch (error) {
      if (!(error instanceof TokenRefusal)) throw error;
      const { status, error: code, description } = error.fault;
      const challenge = status === 401 ? BASIC_CHALLENGE : {};
      return jsonAnswer(status, { error: code, error_description: description }, { ...challenge, ...error.headers });
    }
  };
}
