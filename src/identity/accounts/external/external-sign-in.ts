/** Sign-in with an OpenID provider: POST /sign-in/with/<provider> redirects to it, GET /sign-in/with/<provider>/callback returns. */
import { createHash, randomBytes } from 'node:crypto';
import { transaction } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { readEmail } from '#core/email.ts';
import { notFound, Problem } from '#core/problem.ts';
import { findCredentials, findUserByEmail, type Credentials } from '../accounts-sql.ts';
import { originOf, recordAuditEntry } from '../audit/audit.ts';
import { consumeChallenge, findFactors } from '../factors/factors-sql.ts';
import { hasSecondFactor } from '../factors/second-factor.ts';
import type { Passwords } from '../passwords.ts';
import { returnPath } from '../return-path.ts';
import type { Finish, SignInDeps, SignInPages } from '../sign-in.ts';
import { addressPrefix } from '../throttle/prefix.ts';
import { tooManyAnswer } from '../page-kit.ts';
import type { EraseUnverified } from '../unverified.ts';
import { addUser } from '../users.ts';
import type { AttemptCookies } from './attempt-cookie.ts';
import { findUserOfIdentity, insertIdentity } from './external-sql.ts';
import type { ProvidedPerson, Provider } from './providers.ts';
import { IDENTITY_FIELD, type VerifiedIdentity } from './verified-identity.ts';

type Deps = SignInDeps & {
  passwords: Passwords;
  eraseUnverified: EraseUnverified;
  openIdProviders: readonly Provider[];
  attemptCookies: AttemptCookies;
  pages: SignInPages;
  finish: Finish;
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
  deps: Deps,
  { provider, person, request }: Arrival,
  of: Pick<VerifiedIdentity, 'userId' | 'isLinked'>,
) {
  const { issuer, subject } = person;
  const token = deps.verifiedIdentities.issue({ issuer, subject, provider: provider.name, ...of }, request.now);
  const form = new URLSearchParams(request.form);
  form.set(IDENTITY_FIELD, token);
  return { ...request, form };
}

/** Signs in the user of a linked identity; a second factor is still required. */
async function signInAs(deps: Deps, arrival: Arrival, userId: number): Promise<RawResponse> {
  const request = withIdentity(deps, arrival, { userId, isLinked: true });
  const alert = ended(arrival.provider.name);
  const user = await findCredentials(deps.sql, userId);
  if (user === undefined || user.isDisabled) return deps.pages.signIn(arrival.request, 422, { email: '', alert });
  const factors = await findFactors(deps.sql, userId);
  return hasSecondFactor(factors) ? deps.pages.secondStep(request, user, factors) : deps.finish(request, user, alert);
}

/** Asks the person to sign in as before: only that proves that the account is theirs, and that they want the link. */
const askToLink = (deps: Deps, arrival: Arrival, user: Credentials): Promise<RawResponse> =>
  deps.pages.signIn(withIdentity(deps, arrival, { userId: user.id, isLinked: false }), 200, { email: user.email });

/** Creates an account with the identity. Returns its id; undefined if the address was taken in the meantime. */
async function createAccount(
  deps: Deps,
  { provider, person, request }: Arrival,
  email: string,
): Promise<number | undefined> {
  const { now } = request;
  const origin = originOf(request);
  const passwordHash = await deps.passwords.hash(randomBytes(32).toString('base64url'));
  try {
    return await transaction(deps.sql, async (tx) => {
      await deps.eraseUnverified(tx, email, request);
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
async function arrive(deps: Deps, arrival: Arrival): Promise<RawResponse> {
  const { sql, pages } = deps;
  const { provider, person, request } = arrival;
  const refuse = (alert: string) => pages.signIn(request, 422, { email: '', alert });
  const email = readEmail(person.email ?? '');
  // Read before the identity: a concurrent callback creates both at once, so with its user this one also finds its identity.
  const user = email === undefined ? undefined : await findUserByEmail(sql, email);
  const known = await findUserOfIdentity(sql, person);
  if (known !== undefined) return signInAs(deps, arrival, known);
  if (email === undefined || !person.isEmailVerified) return refuse(unverified(provider.name));
  const isAllowed = provider.domains.length === 0 || provider.domains.includes(domainOf(email));
  if (!isAllowed) return refuse(foreignDomain(provider.name));
  // The provider has verified the address of an account whose address was not verified: a new account replaces it.
  if (user?.isEmailVerified === true) return askToLink(deps, arrival, user);
  if (!provider.createsAccounts) return refuse(noAccount(provider.name));
  // Of two concurrent callbacks of one person, the second one finds the identity that the first one has linked.
  const userId = (await createAccount(deps, arrival, email)) ?? (await findUserOfIdentity(sql, person));
  return userId === undefined ? refuse(noAccount(provider.name)) : signInAs(deps, arrival, userId);
}

export type ExternalSignIn = Record<'start' | 'callback', RawHandler>;

export function createExternalSignIn(deps: Deps): ExternalSignIn {
  const { sql, openIdProviders, attemptCookies, pages, throttle, authUrl, root } = deps;
  const providerOf = ({ params }: RawRequest): Provider => {
    const found = openIdProviders.find(({ name }) => name === params['provider']);
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
    return arrive(deps, { provider, person: exchanged.person, request: arrived });
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
      const taken = await throttle.take([bucket], request.now);
      if (!taken.allowed) return tooManyAnswer(root, taken, deps.advice);
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
