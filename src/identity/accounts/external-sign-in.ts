/**
 * Sign-in with an OpenID provider: POST /sign-in/with/<provider> redirects to it, GET /sign-in/with/<provider>/callback returns.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { returnPath } from './signed-in.ts';
import { transaction } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import { readEmail } from '#core/email.ts';
import { notFound, Problem } from '#core/problem.ts';
import {
  findCredentials,
  findUserByEmail,
  findUserOfIdentity,
  insertIdentity,
  type Credentials,
  type ExternalIdentity,
} from './accounts-sql.ts';
import { originOf, recordAuditEntry } from './audit.ts';
import { consumeChallenge, findFactors } from './factors/factors-sql.ts';
import { hasSecondFactor } from './factors/second-factor.ts';
import type { Runtime, RuntimeConfig } from '#runtime/runtime.ts';
import type { People } from './people.ts';
import {
  carriedIdentity,
  IDENTITY_FIELD,
  suspensionAlert,
  type SignInPages,
  type VerifiedIdentity,
} from './sign-in.ts';
import { addressPrefix } from '#core/address-prefix.ts';
import { tooManyAnswer } from './page-kit.ts';
import type { UserErasure } from './user-end.ts';
import { addUser } from './users.ts';
import { CARRIED_MS, cookiesOf, carried, carry } from './sessions.ts';
import type { Log } from '#core/log.ts';
import * as client from 'openid-client';

// The providers: discovery, the redirect to one, and the exchange of its code for an identity.

const DISCOVERY_LIFETIME_MS = 3_600_000;
const RESPONSE_BYTES_MAX = 256 * 1024;
const TIMEOUT_SECONDS = 5;
const SCOPE = 'openid email';
/** OpenID Connect Core §2. */
const SUBJECT_LENGTH_MAX = 255;

/** `fetch` with a limit on the size of the response, which the library reads into memory. */
const limitedFetch: client.CustomFetch = async (url, { body, ...options }) => {
  const response = await fetch(url, { ...options, body: body ?? null });
  if (response.body === null) return response;
  let readBytes = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      readBytes += chunk.byteLength;
      if (readBytes > RESPONSE_BYTES_MAX) controller.error(new TypeError('The response is too large'));
      else controller.enqueue(chunk);
    },
  });
  const { status, headers } = response;
  return new Response(response.body.pipeThrough(counted), { status, headers });
};

const UNAVAILABLE = new Set([
  'OAUTH_TIMEOUT',
  'OAUTH_ABORT',
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
  'OAUTH_RESPONSE_IS_NOT_JSON',
]);

const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

/** Whether an error is a failure of the connection or of the provider. `fetch` throws a TypeError without a code. */
function isUnavailable(error: unknown): boolean {
  const code = codeOf(error);
  if (code === undefined) return error instanceof TypeError;
  return UNAVAILABLE.has(code);
}

/** Prefers HTTP Basic, the default of OpenID Connect Core §9. */
function authenticationOf(metadata: client.ServerMetadata, secret: string): client.ClientAuth {
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  return methods.includes('client_secret_basic') ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret);
}

/** Returns the metadata of an issuer. It is read when needed, once at a time, and kept for an hour; a failure is not kept. */
function createDiscovery(issuer: string, requests: client.DiscoveryRequestOptions) {
  let cached: { metadata: Promise<client.ServerMetadata>; expiresMs: number } | undefined;
  const discover = async (): Promise<client.ServerMetadata> => {
    const found = await client.discovery(new URL(issuer), 'unused', undefined, client.None(), requests);
    return found.serverMetadata();
  };
  return (now: Date): Promise<client.ServerMetadata> => {
    if (cached !== undefined && cached.expiresMs > now.getTime()) return cached.metadata;
    const one = { metadata: discover(), expiresMs: now.getTime() + DISCOVERY_LIFETIME_MS };
    cached = one;
    one.metadata.catch(() => {
      if (cached === one) cached = undefined;
    });
    return one.metadata;
  };
}

/** Exchanges the code and returns the person of the ID token; the address is that of the token, otherwise of the userinfo endpoint. */
async function personOf(
  configuration: client.Configuration,
  response: URL,
  proofs: Proofs,
): Promise<ProvidedPerson | undefined> {
  const tokens = await client.authorizationCodeGrant(configuration, response, {
    expectedState: proofs.state,
    expectedNonce: proofs.nonce,
    pkceCodeVerifier: proofs.verifier,
  });
  const token = tokens.claims();
  if (token === undefined || token.sub.length > SUBJECT_LENGTH_MAX) return undefined;
  const hasUserInfo = configuration.serverMetadata().userinfo_endpoint !== undefined;
  const claims =
    token['email'] === undefined && hasUserInfo
      ? await client.fetchUserInfo(configuration, tokens.access_token, token.sub)
      : token;
  const { email, email_verified: verified } = claims;
  return {
    issuer: token.iss,
    subject: token.sub,
    email: typeof email === 'string' ? email : undefined,
    isEmailVerified: verified === true,
  };
}

/** `timeoutSeconds`: for each request to the provider. */
export function createProvider(
  provider: OpenIdProvider,
  { log, timeoutSeconds = TIMEOUT_SECONDS }: { log: Log; timeoutSeconds?: number },
) {
  const { name, issuer, clientId, clientSecret } = provider;
  // http: is only configured for a provider on the same computer.
  const isInsecure = issuer.startsWith('http:');
  const execute = isInsecure ? [client.allowInsecureRequests] : [];
  const discover = createDiscovery(issuer, { execute, timeout: timeoutSeconds, [client.customFetch]: limitedFetch });

  /** A new configuration for each sign-in reads the provider's keys again, so that a rotated key is known at once. */
  const configure = async (now: Date): Promise<client.Configuration> => {
    const metadata = await discover(now);
    const authentication = authenticationOf(metadata, clientSecret);
    const configuration = new client.Configuration(metadata, clientId, clientSecret, authentication);
    configuration.timeout = timeoutSeconds;
    configuration[client.customFetch] = limitedFetch;
    if (isInsecure) client.allowInsecureRequests(configuration);
    // Without this, the library relies on TLS for the signature of an ID token from the token endpoint.
    client.enableNonRepudiationChecks(configuration);
    return configuration;
  };

  /** Logs no error object: its cause may contain tokens and claims. */
  const warn = (error: unknown, message: string): void => {
    const reason = error instanceof Error ? error.message : undefined;
    log.warn({ provider: name, code: codeOf(error), reason }, message);
  };

  return {
    ...provider,
    /** Returns the address at the provider to redirect to; undefined if the provider is not available. */
    authorizationUrl: async (redirectUri: string, { state, nonce, verifier }: Proofs, now: Date) => {
      try {
        const challenge = await client.calculatePKCECodeChallenge(verifier);
        return client.buildAuthorizationUrl(await configure(now), {
          redirect_uri: redirectUri,
          scope: SCOPE,
          state,
          nonce,
          code_challenge: challenge,
          code_challenge_method: 'S256',
        }).href;
      } catch (error) {
        warn(error, 'OpenID provider not available');
        return undefined;
      }
    },
    /** Exchanges the code of a response. `response` is the address of the callback with its query. */
    exchange: async (response: URL, proofs: Proofs, now: Date): Promise<Exchanged> => {
      try {
        const person = await personOf(await configure(now), response, proofs);
        return person === undefined ? { kind: 'refused' } : { kind: 'person', person };
      } catch (error) {
        const isDown = isUnavailable(error);
        warn(error, isDown ? 'OpenID provider not available' : 'sign-in with OpenID provider refused');
        return { kind: isDown ? 'unavailable' : 'refused' };
      }
    },
  };
}

// The pages.

/** Browsers reject a cookie of more than 4,096 bytes. */
const RETURN_LENGTH_MAX = 2_000;

/** A started sign-in. The proofs are random, and bind the response to the browser that asked for it. */
type SignInAttempt = { proofs: Proofs; returnTo: string | undefined };

const random = (): string => randomBytes(32).toString('base64url');

/** A cookie is valid for one provider. */
const boundTo = (provider: string): string => `external sign-in:${provider}`;

/** Creates the cookie between the redirect to a provider and its callback. The server stores nothing until the callback. */
function createAttemptCookies({ sealer, config }: Runtime) {
  const { prefix, set } = cookiesOf(config.authUrl);
  const name = `${prefix}-external`;
  return {
    /** Starts a sign-in with a provider. */
    start: (provider: string, returnTo: string | undefined, now: Date): { cookie: string; proofs: Proofs } => {
      const proofs = { state: random(), nonce: random(), verifier: random() };
      const kept = returnTo === undefined || returnTo.length > RETURN_LENGTH_MAX ? undefined : returnTo;
      const attempt: SignInAttempt = { proofs, returnTo: kept };
      return { cookie: set(name, carry(sealer, boundTo(provider), attempt, now), CARRIED_MS / 1_000), proofs };
    },
    /** Returns the sign-in with this provider that the browser has started; undefined if there is none, or it has expired. */
    find: ({ cookies, now }: RawRequest, provider: string) => {
      const found = carried(sealer, boundTo(provider), cookies[name], now);
      return found && { ...(found.value as SignInAttempt), expires: found.until };
    },
    /** Returns the `Set-Cookie` that removes the cookie. */
    end: () => set(name, '', 0),
  };
}

type Context = {
  runtime: Runtime;
  people: People;
  providers: readonly Provider[];
  pages: SignInPages;
  erasure: UserErasure;
};

const unavailable = (name: string): string => `Sign-in with ${name} is not available now; use your password.`;
const refused = (name: string): string => `${name} did not confirm who you are. Try again, or use your password.`;
const stale = (name: string): string =>
  `The sign-in with ${name} took too long, was used already, or was started in another browser. Start again.`;
const unverified = (name: string): string =>
  `${name} has not verified your e-mail address. Verify it there, or sign in with your password.`;
const noAccount = (name: string): string =>
  `There is no account for your e-mail address at ${name}. Ask for one with this address, or sign in with your password.`;
const foreignDomain = (name: string): string =>
  `E-mail addresses of your domain cannot sign in with ${name}. Sign in with your password.`;
const ended = (name: string): string =>
  `The account cannot be signed in to with ${name}: it is disabled, or ${name} is no longer linked to it.`;

/** The person of a callback, the provider, and the request, whose form is that of a sign-in page with the return path. */
type Arrival = { provider: Provider; person: ProvidedPerson; request: RawRequest };

function domainOf(email: string): string {
  return email.slice(email.lastIndexOf('@') + 1);
}

/** Adds the verified identity to the form of the request, which the pages and the end of the sign-in read. */
function withIdentity(
  { runtime }: Context,
  { provider, person, request }: Arrival,
  of: Pick<VerifiedIdentity, 'userId' | 'isLinked'>,
) {
  const { issuer, subject } = person;
  const form = new URLSearchParams(request.form);
  form.set(IDENTITY_FIELD, carriedIdentity(runtime, { issuer, subject, provider: provider.name, ...of }, request.now));
  return { ...request, form };
}

/** Signs in the user of a linked identity; a second factor is still required. */
async function signInAs(context: Context, arrival: Arrival, userId: number): Promise<RawResponse> {
  const { pages, runtime } = context;
  const request = withIdentity(context, arrival, { userId, isLinked: true });
  const alert = ended(arrival.provider.name);
  const user = await findCredentials(runtime.sql, userId);
  if (user === undefined || user.isDisabled)
    return pages.signIn(arrival.request, 422, { alert: suspensionAlert(user?.disabledReason) ?? alert });
  const factors = await findFactors(runtime.sql, userId);
  return hasSecondFactor(factors) ? pages.secondStep(request, user, factors) : pages.finish(request, user, alert);
}

/** Asks the person to sign in as before: only that proves that the account is theirs, and that they want the link. */
const askToLink = (context: Context, arrival: Arrival, user: Credentials): Promise<RawResponse> =>
  context.pages.signIn(withIdentity(context, arrival, { userId: user.id, isLinked: false }), 200, {
    email: user.email,
  });

/** Creates an account with the identity. Returns its id; undefined if the address was taken in the meantime. */
async function createAccount(
  { runtime, people, erasure }: Context,
  { provider, person, request }: Arrival,
  email: string,
): Promise<number | undefined> {
  const { now } = request;
  const origin = originOf(request);
  const passwordHash = await people.passwords.hash(random());
  try {
    return await transaction(runtime.sql, async (tx) => {
      await erasure.eraseUnverified(tx, email, request);
      const { id: userId } = await addUser(tx, { email, passwordHash, hasPassword: false }, { origin, now });
      if (!(await insertIdentity(tx, { ...person, userId, now })))
        throw new Problem(409, { code: 'linked', message: '' });
      const detail = { provider: provider.name };
      await recordAuditEntry(tx, { action: 'external_identity_linked', userId, origin, detail, now });
      return userId;
    });
  } catch (error) {
    if (error instanceof Problem && error.status === 409) return undefined;
    throw error;
  }
}

/** What a verified person at the provider leads to: a session, the request to link an account, a new account, or a refusal. */
async function arrive(context: Context, arrival: Arrival): Promise<RawResponse> {
  const { pages, runtime } = context;
  const { sql } = runtime;
  const { provider, person, request } = arrival;
  const refuse = (alert: string) => pages.signIn(request, 422, { alert });
  const email = readEmail(person.email ?? '');
  // Reads the user before the identity: a concurrent callback creates both at once, so with its user this one also finds its
  // identity.
  const user = email === undefined ? undefined : await findUserByEmail(sql, email);
  const known = await findUserOfIdentity(sql, person);
  if (known !== undefined) return signInAs(context, arrival, known);
  if (email === undefined || !person.isEmailVerified) return refuse(unverified(provider.name));
  const isAllowed = provider.domains.length === 0 || provider.domains.includes(domainOf(email));
  if (!isAllowed) return refuse(foreignDomain(provider.name));
  // The provider has verified the address of an account whose address was not verified: a new account replaces it.
  if (user?.isEmailVerified === true) return askToLink(context, arrival, user);
  if (!provider.createsAccounts) return refuse(noAccount(provider.name));
  // Of two concurrent callbacks of one person, the second one finds the identity that the first one has linked.
  const made = await createAccount(context, arrival, email);
  const userId = made ?? (await findUserOfIdentity(sql, person));
  return userId === undefined ? refuse(noAccount(provider.name)) : signInAs(context, arrival, userId);
}

export function createExternalSignIn(context: Context): Record<'start' | 'callback', RawHandler> {
  const { runtime, people, providers, pages } = context;
  const { sql, config } = runtime;
  const { authUrl } = config;
  const attemptCookies = createAttemptCookies(runtime);
  const providerOf = ({ params }: RawRequest): Provider => {
    const found = providers.find(({ name }) => name === params['provider']);
    if (found === undefined) throw notFound('provider');
    return found;
  };
  const callbackOf = ({ name }: Provider): string => `${authUrl}/sign-in/with/${name}/callback`;

  /** Exchanges the code; every outcome but a person is a page. */
  const receive = async (request: RawRequest, provider: Provider): Promise<RawResponse> => {
    const { now, rawQuery } = request;
    const attempt = attemptCookies.find(request, provider.name);
    const form = new URLSearchParams(attempt?.returnTo === undefined ? {} : { return_to: attempt.returnTo });
    const arrived: RawRequest = { ...request, method: 'POST', form };
    const refuse = (status: number, alert: string) => pages.signIn(arrived, status, { alert });
    if (attempt === undefined) return refuse(422, stale(provider.name));
    const hash = createHash('sha256').update(`external ${attempt.proofs.state}`).digest();
    if (!(await consumeChallenge(sql, hash, attempt.expires))) return refuse(422, stale(provider.name));
    const exchanged = await provider.exchange(new URL(`${callbackOf(provider)}?${rawQuery}`), attempt.proofs, now);
    if (exchanged.kind === 'unavailable') return refuse(503, unavailable(provider.name));
    if (exchanged.kind === 'refused') return refuse(422, refused(provider.name));
    return arrive(context, { provider, person: exchanged.person, request: arrived });
  };

  return {
    start: async (request) => {
      const provider = providerOf(request);
      const returnTo = returnPath(request.form.get('return_to'));
      const { cookie, proofs } = attemptCookies.start(provider.name, returnTo, request.now);
      const address = await provider.authorizationUrl(callbackOf(provider), proofs, request.now);
      if (address === undefined) return pages.signIn(request, 503, { alert: unavailable(provider.name) });
      return redirectAnswer(address, { 'Set-Cookie': cookie });
    },

    callback: async (request) => {
      const provider = providerOf(request);
      const bucket = { limit: 'sign-in from address', subject: addressPrefix(request.address) } as const;
      const taken = await people.throttle.take([bucket], request.now);
      if (!taken.allowed) return tooManyAnswer(rootOf(authUrl), taken, people.factors.advice);
      const response = await receive(request, provider);
      if (response.status < 400) await taken.giveBack();
      const cookies = response.headers['Set-Cookie'] ?? [];
      return {
        ...response,
        headers: { ...response.headers, 'Set-Cookie': [...[cookies].flat(), attemptCookies.end()] },
      };
    },
  };
}

export type OpenIdProvider = RuntimeConfig['accounts']['openIdProviders'][number];

/** What binds a response of the provider to the browser that asked for it. */
export type Proofs = { state: string; nonce: string; verifier: string };

/** A person as the provider describes them. */
export type ProvidedPerson = ExternalIdentity & { email: string | undefined; isEmailVerified: boolean };

type Exchanged =
  | { kind: 'person'; person: ProvidedPerson }
  /** The provider did not respond, or not as OpenID Connect requires. */
  | { kind: 'unavailable' }
  /** The response, the code or the ID token is not valid, or the person or the provider has refused. */
  | { kind: 'refused' };

type Provider = ReturnType<typeof createProvider>;
