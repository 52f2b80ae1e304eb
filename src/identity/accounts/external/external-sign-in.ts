/**
 * Sign-in with an OpenID provider: POST /sign-in/with/<provider> redirects to it, GET /sign-in/with/<provider>/callback returns.
 */
import { createHash, randomBytes } from 'node:crypto';
import { type RawHandler, type RawRequest, type RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { returnPath } from '../signed-in.ts';
import type { Proofs, ProvidedPerson, Provider } from './providers.ts';
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
} from '../accounts-sql.ts';
import { originOf, recordAuditEntry } from '../audit.ts';
import { consumeChallenge, findFactors } from '../factors/factors-sql.ts';
import { hasSecondFactor } from '../factors/second-factor.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { People } from '../people.ts';
import {
  carriedIdentity,
  IDENTITY_FIELD,
  suspensionAlert,
  type SignInPages,
  type VerifiedIdentity,
} from '../sign-in.ts';
import { addressPrefix } from '../throttle.ts';
import { tooManyAnswer } from '../page-kit.ts';
import type { UserErasure } from '../user-end.ts';
import { addUser } from '../users.ts';
import { cookiesOf, carried, carry } from '../sessions.ts';

const VALID_SECONDS = 10 * 60;
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
      return { cookie: set(name, carry(sealer, boundTo(provider), attempt, now), VALID_SECONDS), proofs };
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
    return pages.signIn(arrival.request, 422, { email: '', alert: suspensionAlert(user?.disabledReason) ?? alert });
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
  const refuse = (alert: string) => pages.signIn(request, 422, { email: '', alert });
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
    const refuse = (status: number, alert: string) => pages.signIn(arrived, status, { email: '', alert });
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
