/**
 * GET and POST /authorize (RFC 6749 §3.1): a checked request, a signed-in person, their decision, and the way back to
 * the client. POST checks again everything that GET checked; GET, and so HEAD and a prefetch, changes nothing.
 */
import { formNonce, isFormNonce } from '#identity/accounts/form-nonce.ts';
import type { Session, Sessions } from '#identity/accounts/sessions.ts';
import type { Changelog } from '#changelog/changelog.ts';
import type { Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { RawResponse, RawHandler, RawRequest } from '#http/route.ts';
import type { Keys } from '#core/keys.ts';
import { rejections, type Fault } from '../errors.ts';
import { formTargets, withParameters } from '../redirect-uri.ts';
import { recordApproval, recordDenial } from './approval.ts';
import { readAuthorization, type AuthorizationRequest, type Received } from './authorization-request.ts';
import { consentPage } from './consent-page.ts';
import { boundToRequest } from './nonce.ts';
import { storesOf, type PickableStore } from './authorize-sql.ts';
import type { StoppedWebhooks } from './stopped-webhooks.ts';
import { refusalPage } from './refusal-page.ts';

type Deps = StoppedWebhooks & {
  sql: Sql;
  changelog: Changelog;
  sessions: Sessions;
  issuer: string;
  codeLifetimeSeconds: number;
  nonceKeys: Keys;
};

/** A sound request of a signed-in person. `stores` are those they may choose from; none where none is to be chosen. */
type Visit = {
  request: AuthorizationRequest;
  session: Session;
  stores: PickableStore[];
  /** Webhooks of the app that are off because its access ended, by store. */
  stopped: ReadonlyMap<number, number>;
  nonce: string;
};

const CHANGED = 'Since this page was opened you have signed in again. Look at it once more and decide.';
const UNDECIDED = 'Choose Allow or Deny.';
const NO_STORE = 'Choose one of your stores.';
const GONE = 'Something changed while you decided, and nothing was allowed. Look at it once more and decide.';

const path = (deps: Deps, page: string, query: URLSearchParams | Record<string, string>): string =>
  `${rootOf(deps.issuer)}/${page}?${new URLSearchParams(query).toString()}`;

/** Returns the sign-in page that comes back with the query as it was sent: a broken percent sequence stays broken. */
const signIn = (deps: Deps, { rawQuery }: RawRequest): string => {
  // A path to return to has no backslash, and a `#` would end its query.
  const query = rawQuery.replaceAll(/[\\#]/g, encodeURIComponent);
  return path(deps, 'sign-in', { return_to: `${rootOf(deps.issuer)}/authorize?${query}` });
};

/** Who made the app sees beside what was received also what is registered. */
const refuse = async (deps: Deps, door: RawRequest, fault: Fault, received: Received): Promise<RawResponse> => {
  const ownerId = received.client?.ownerId ?? null;
  const session = ownerId === null ? null : await deps.sessions.find(door);
  const isOwner = session !== null && session.userId === ownerId;
  return htmlAnswer(400, refusalPage({ fault, received, isOwner }));
};

/** Back to the client with an error: under the name of RFC 6749 §4.1.2.1 and under the one that our API's clients know. */
const rejection = ({ issuer }: Deps, redirectUri: string, fault: Fault, state: string | undefined): RawResponse => {
  const { error, description } = fault;
  const parameters = { error, error_description: description, error_message: description, state, iss: issuer };
  return redirectAnswer(withParameters(redirectUri, parameters));
};

/** The steps that the page and its form share; an answer where they end early. */
const enter = async (deps: Deps, door: RawRequest): Promise<Visit | RawResponse> => {
  const reading = await readAuthorization(deps.sql, door.rawQuery);
  if (reading.kind === 'refused') return refuse(deps, door, reading.fault, reading.received);
  const session = await deps.sessions.find(door);
  // RFC 9700 §4.11.2: anyone may register a client; its errors redirect only a person who has signed in.
  if (session === null) return redirectAnswer(signIn(deps, door));
  if (reading.kind === 'rejected') return rejection(deps, reading.redirectUri, reading.fault, reading.state);
  const { request } = reading;
  const memberOf = await storesOf(deps.sql, session.userId);
  const stores = request.scope.scope === 'store_full_access' ? memberOf : [];
  const counts = await deps.countStopped(
    deps.sql,
    request.client.id,
    memberOf.map(({ id }) => id),
  );
  const stopped = new Map(counts.map(({ storeId, count }) => [storeId, count]));
  return { request, session, stores, stopped, nonce: formNonce(deps.nonceKeys, session, boundToRequest(request)) };
};

const ask = (deps: Deps, visit: Visit, door: RawRequest, status = 200, alert?: string): RawResponse => {
  const { request, session, stores, stopped, nonce } = visit;
  const { email } = session;
  const root = rootOf(deps.issuer);
  const action = path(deps, 'authorize', door.query);
  const switchUser = signIn(deps, door);
  const view = { request, email, stores, stopped, nonce, action, switchUser, root, alert };
  return htmlAnswer(status, consentPage(view), { formTargets: formTargets(request.redirectUri) });
};

const approve = async (
  deps: Deps,
  { request, session, stopped }: Visit,
  store: PickableStore | undefined,
  door: RawRequest,
): Promise<RawResponse> => {
  const { issuer, codeLifetimeSeconds } = deps;
  const resumedStores = door.form.has('resume') ? (store === undefined ? [...stopped.keys()] : [store.id]) : [];
  const code = await recordApproval(deps, { request, session, store, resumedStores, door, codeLifetimeSeconds });
  if (code === undefined) {
    const again = await enter(deps, door);
    return 'status' in again ? again : ask(deps, again, door, 409, GONE);
  }
  // RFC 9207: the client can tell which server answered.
  return redirectAnswer(withParameters(request.redirectUri, { code, state: request.state, iss: issuer }));
};

const decide = async (deps: Deps, visit: Visit, door: RawRequest): Promise<RawResponse> => {
  const { request, session, stores } = visit;
  const { form } = door;
  const bound = boundToRequest(request);
  if (!isFormNonce(form.get('nonce'), deps.nonceKeys, { session, bound })) return ask(deps, visit, door, 403, CHANGED);
  const decision = form.get('decision');
  if (decision === 'deny') {
    await recordDenial(deps.sql, { request, session, door });
    return rejection(deps, request.redirectUri, rejections.accessDenied, request.state);
  }
  if (decision !== 'allow') return ask(deps, visit, door, 422, UNDECIDED);
  if (request.scope.scope === 'user_full_access') return approve(deps, visit, undefined, door);
  const chosen = stores.find(({ id }) => String(id) === form.get('store'));
  return chosen === undefined ? ask(deps, visit, door, 422, NO_STORE) : approve(deps, visit, chosen, door);
};

/** Returns the `form-action` sources of a sign-in page that returns to a request whose error goes to its client. */
export const targetsAfterSignIn = async (sql: Sql, issuer: string, returnTo: string): Promise<readonly string[]> => {
  const { pathname, search } = new URL(returnTo, issuer);
  if (pathname !== `${rootOf(issuer)}/authorize`) return [];
  const reading = await readAuthorization(sql, search.slice(1));
  return reading.kind === 'rejected' ? formTargets(reading.redirectUri) : [];
};

/** Consent is asked every time: what was allowed before does not make a later request harmless. */
export const createAuthorize = (deps: Deps): { show: RawHandler; decide: RawHandler } => ({
  show: async (request) => {
    const visit = await enter(deps, request);
    return 'status' in visit ? visit : ask(deps, visit, request);
  },
  decide: async (request) => {
    const visit = await enter(deps, request);
    return 'status' in visit ? visit : decide(deps, visit, request);
  },
});
