/**
 * Sign-in with an OpenID provider: POST /sign-in/with/<provider> redirects to it, GET /sign-in/with/<provider>/callback returns.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import { type RawHandler, type RawRequest, type RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { returnPath } from '../signed-in.ts';
import type { Proofs, ProvidedPerson, Provider } from './providers.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import { readEmail } from '#core/email.ts';
import { notFound, Problem } from '#core/problem.ts';
import {
  findCredentials,
  findUserByEmail,
  findUserOfIdentity,
  insertIdentity,
  type Credentials,
} from '../accounts-sql.ts';
import { originOf, recordAuditEntry } from '../audit.ts';
import { consumeChallenge, findFactors } from '../factors/factors-sql.ts';
import { hasSecondFactor } from '../factors/second-factor.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Passwords } from '../passwords.ts';
import type { People } from '../people.ts';
import { suspensionAlert, type SignInPages } from '../sign-in.ts';
import { addressPrefix } from '../throttle.ts';
import { tooManyAnswer } from '../page-kit.ts';
import type { UserErasure } from '../user-erasure.ts';
import { addUser } from '../users.ts';
import { cookiesOf } from '../sessions.ts';
import { IDENTITY_FIELD, mac, type VerifiedIdentities, type VerifiedIdentity } from '../signed-tokens.ts';

const VALID_SECONDS = 10 * 60;
const ID_BYTES = 32;
/** Browsers reject a cookie of more than 4,096 bytes. */
const RETURN_LENGTH_MAX = 2_000;
const VALUE = /^([\w-]{43})\.(\d{1,12})\.([\w-]*)\.([\w-]{43})$/;

type CookieRequest = Pick<RawRequest, 'cookies' | 'now'>;

/** A started sign-in. `id` is unique; `expires` is when the cookie does. */
type SignInAttempt = { id: string; expires: Date; returnTo: string | undefined; proofs: Proofs };

/** The proof of a cookie, which is valid for one provider. */
const proofOf = (key: Buffer, of: { provider: string; id: string; expires: number; back: string }): Buffer =>
  mac(key, 'attempt', of.provider, of.id, of.expires, of.back);

/** Derives what the provider sees from the random id, so that the cookie does not contain the PKCE verifier. */
function proofsOf(key: Buffer, id: string): Proofs {
  const derive = (purpose: string): string => mac(key, purpose, id).toString('base64url');
  return { state: derive('state'), nonce: derive('nonce'), verifier: derive('verifier') };
}

/**
 * Creates the cookie between the redirect to a provider and its callback: it binds the response to the browser that asked for it. `keys`: 32
 * bytes each. The server stores nothing until the callback.
 */
function createAttemptCookies({ keys, authUrl }: { keys: Keys; authUrl: string }) {
  const { prefix, set } = cookiesOf(authUrl);
  const name = `${prefix}-external`;

  return {
    /** Starts a sign-in with a provider. */
    start: (provider: string, returnTo: string | undefined, now: Date): { cookie: string; proofs: Proofs } => {
      const [key] = keys;
      const id = randomBytes(ID_BYTES).toString('base64url');
      const expires = Math.floor(now.getTime() / 1_000) + VALID_SECONDS;
      const back = returnTo === undefined || returnTo.length > RETURN_LENGTH_MAX ? '' : returnTo;
      const proof = proofOf(key, { provider, id, expires, back }).toString('base64url');
      const value = [id, expires, Buffer.from(back).toString('base64url'), proof].join('.');
      return { cookie: set(name, value, VALID_SECONDS), proofs: proofsOf(key, id) };
    },
    /** Returns the sign-in with this provider that the browser has started; undefined if there is none, or it has expired. */
    find: ({ cookies, now }: CookieRequest, provider: string): SignInAttempt | undefined => {
      const [, id = '', expires = '', encoded = '', proof] = VALUE.exec(cookies[name] ?? '') ?? [];
      if (proof === undefined || Number(expires) * 1_000 <= now.getTime()) return undefined;
      const back = Buffer.from(encoded, 'base64url').toString();
      const given = Buffer.from(proof, 'base64url');
      const claimed = { provider, id, expires: Number(expires), back };
      const key = keys.find((one) => timingSafeEqual(proofOf(one, claimed), given));
      if (key === undefined) return undefined;
      const returnTo = returnPath(back);
      return { id, expires: new Date(Number(expires) * 1_000), returnTo, proofs: proofsOf(key, id) };
    },
    /** Returns the `Set-Cookie` that removes the cookie. */
    end: () => set(name, '', 0),
  };
}

type Deps = {
  providers: readonly Provider[];
  verifiedIdentities: VerifiedIdentities;
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

/** Adds the signed identity to the form of the request, which the pages and the end of the sign-in read. */
function withIdentity(
  { verifiedIdentities }: Deps,
  { provider, person, request }: Arrival,
  of: Pick<VerifiedIdentity, 'userId' | 'isLinked'>,
) {
  const { issuer, subject } = person;
  const token = verifiedIdentities.issue({ issuer, subject, provider: provider.name, ...of }, request.now);
  const form = new URLSearchParams(request.form);
  form.set(IDENTITY_FIELD, token);
  return { ...request, form };
}

/** Signs in the user of a linked identity; a second factor is still required. */
async function signInAs(sql: Sql, deps: Deps, arrival: Arrival, userId: number): Promise<RawResponse> {
  const { pages } = deps;
  const request = withIdentity(deps, arrival, { userId, isLinked: true });
  const alert = ended(arrival.provider.name);
  const user = await findCredentials(sql, userId);
  if (user === undefined || user.isDisabled)
    return pages.signIn(arrival.request, 422, { email: '', alert: suspensionAlert(user?.disabledReason) ?? alert });
  const factors = await findFactors(sql, userId);
  return hasSecondFactor(factors) ? pages.secondStep(request, user, factors) : pages.finish(request, user, alert);
}

/** Asks the person to sign in as before: only that proves that the account is theirs, and that they want the link. */
const askToLink = (deps: Deps, arrival: Arrival, user: Credentials): Promise<RawResponse> =>
  deps.pages.signIn(withIdentity(deps, arrival, { userId: user.id, isLinked: false }), 200, { email: user.email });

/** Creates an account with the identity. Returns its id; undefined if the address was taken in the meantime. */
async function createAccount(
  sql: Sql,
  { passwords, erasure }: { passwords: Passwords; erasure: UserErasure },
  { provider, person, request }: Arrival,
  email: string,
): Promise<number | undefined> {
  const { now } = request;
  const origin = originOf(request);
  const passwordHash = await passwords.hash(randomBytes(32).toString('base64url'));
  try {
    return await transaction(sql, async (tx) => {
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
async function arrive(sql: Sql, passwords: Passwords, deps: Deps, arrival: Arrival): Promise<RawResponse> {
  const { pages, erasure } = deps;
  const { provider, person, request } = arrival;
  const refuse = (alert: string) => pages.signIn(request, 422, { email: '', alert });
  const email = readEmail(person.email ?? '');
  // Reads the user before the identity: a concurrent callback creates both at once, so with its user this one also finds its
  // identity.
  const user = email === undefined ? undefined : await findUserByEmail(sql, email);
  const known = await findUserOfIdentity(sql, person);
  if (known !== undefined) return signInAs(sql, deps, arrival, known);
  if (email === undefined || !person.isEmailVerified) return refuse(unverified(provider.name));
  const isAllowed = provider.domains.length === 0 || provider.domains.includes(domainOf(email));
  if (!isAllowed) return refuse(foreignDomain(provider.name));
  // The provider has verified the address of an account whose address was not verified: a new account replaces it.
  if (user?.isEmailVerified === true) return askToLink(deps, arrival, user);
  if (!provider.createsAccounts) return refuse(noAccount(provider.name));
  // Of two concurrent callbacks of one person, the second one finds the identity that the first one has linked.
  const made = await createAccount(sql, { passwords, erasure }, arrival, email);
  const userId = made ?? (await findUserOfIdentity(sql, person));
  return userId === undefined ? refuse(noAccount(provider.name)) : signInAs(sql, deps, arrival, userId);
}

export type ExternalSignIn = Record<'start' | 'callback', RawHandler>;

export function createExternalSignIn(runtime: Runtime, people: People, deps: Deps): ExternalSignIn {
  const { sql, derive, config } = runtime;
  const { authUrl } = config;
  const { providers, pages } = deps;
  const attemptCookies = createAttemptCookies({ keys: derive('external sign-in'), authUrl });
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
    const refuse = (status: number, alert: string) => pages.signIn(arrived, status, { email: '', alert });
    if (attempt === undefined) return refuse(422, stale(provider.name));
    const hash = createHash('sha256').update(`external ${attempt.id}`).digest();
    if (!(await consumeChallenge(sql, hash, attempt.expires))) return refuse(422, stale(provider.name));
    const exchanged = await provider.exchange(new URL(`${callbackOf(provider)}?${rawQuery}`), attempt.proofs, now);
    if (exchanged.kind === 'unavailable') return refuse(503, unavailable(provider.name));
    if (exchanged.kind === 'refused') return refuse(422, refused(provider.name));
    return arrive(sql, people.passwords, deps, { provider, person: exchanged.person, request: arrived });
  };

  return {
    start: async (request) => {
      const provider = providerOf(request);
      const returnTo = returnPath(request.form.get('return_to'));
      const { cookie, proofs } = attemptCookies.start(provider.name, returnTo, request.now);
      const address = await provider.authorizationUrl(callbackOf(provider), proofs, request.now);
      if (address === undefined) return pages.signIn(request, 503, { email: '', alert: unavailable(provider.name) });
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
