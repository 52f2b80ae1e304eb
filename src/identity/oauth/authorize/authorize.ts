/**
 * GET and POST /authorize (RFC 6749 §3.1): validates the request, requires a signed-in user, shows the consent page, and
 * redirects to the client with the decision. POST repeats all checks of GET; GET, HEAD and a prefetch change nothing.
 */
import { appConnected } from '#identity/accounts/account-mails.ts';
import type { People } from '#identity/accounts/people.ts';
import { enrolmentForStore, enrolmentPath } from '#identity/accounts/signed-in.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import type { Throttle } from '#identity/accounts/throttle.ts';
import { unverifiedAnswer } from '#identity/accounts/page-kit.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { rejections, type Fault } from '../oauth-errors.ts';
import type { RevocationEffects } from '../grants.ts';
import { formTargets, whyNotRegistrable, withParameters } from '../redirect-uri.ts';
import { isForStore, permissionsAmong, scopeNames, type GrantedScope } from '../scope.ts';
import { recordApproval, recordDenial, type StoppedWebhooks } from './approval.ts';
import { readAuthorization, type AuthorizationRequest, type ConsentRequest } from './authorization-request.ts';
import { consentPage, refusalPage } from './consent-page.ts';
import { hasGrant } from '../connected/connected-sql.ts';
import { storesOf, type PickableStore } from './authorize-sql.ts';
import type { Granted } from '../grants-sql.ts';
import { settingsHash } from '../clients/client-fields.ts';
import { documentHost, isClientUrl } from '../protocol-requests.ts';
import type { ClientDocuments } from '../registration/metadata-documents.ts';
import { originOf } from '#identity/accounts/audit.ts';

type ConsentEffects = RevocationEffects & StoppedWebhooks;

/** What the pages with a consent form share. `root` is the path prefix of the pages, without a trailing slash. */
export type Consenting = {
  runtime: Runtime;
  people: People;
  effects: ConsentEffects;
  documents: ClientDocuments;
  root: string;
};

/** What differs between /authorize, which redirects to the client with the decision, and the pages that show it. */
type Flow = {
  /** The path below the root. */
  page: string;
  /** The origins that the response to the form may redirect to. */
  formTargets: readonly string[];
  /** Everything that the effect of the form depends on. */
  bound: readonly unknown[];
  allowed: (code: string, granted: Granted) => RawResponse | Promise<RawResponse>;
  denied: () => RawResponse;
};

/** A valid request of a signed-in user. `stores` are the stores to choose from, empty unless the scope needs one. */
export type Consent = {
  request: ConsentRequest;
  session: Session;
  flow: Flow;
  stores: PickableStore[];
  /** The number of the app's webhooks that were disabled when its access ended, by store. */
  stopped: ReadonlyMap<number, number>;
  nonce: string;
};

/** Runs the steps before the page, and again after something has changed. Returns a response if they end early. */
type Prepare = (request: RawRequest) => Promise<Consent | RawResponse>;
type ConsentPage = Consenting & { prepare: Prepare };

const CHANGED = 'You have signed in again since this page was opened. Check the request and decide again.';
const UNDECIDED = 'Choose Allow or Deny.';
const NO_PERMISSION = 'Choose at least one permission, or deny access.';
const NO_STORE = 'Choose one of your stores.';
const TOO_MANY = 'Too many approvals. Try again in';
const GONE = 'Something changed in the meantime. Access was not granted. Check the request and decide again.';

const path = (root: string, page: string, query: URLSearchParams | Record<string, string>): string =>
  `${root}/${page}?${new URLSearchParams(query).toString()}`;

/**
 * Returns the path of the sign-in page, with the raw query in its return path: a broken percent sequence stays
 * unchanged.
 */
function signIn(root: string, page: Flow['page'], { rawQuery }: RawRequest): string {
  // A path to return to has no backslash, and a `#` would end its query.
  const query = rawQuery.replaceAll(/[\\#]/g, encodeURIComponent);
  return path(root, 'sign-in', { return_to: `${root}/${page}?${query}` });
}

/**
 * Redirects to the client with an error. The text is sent as `error_description` (RFC 6749 §4.1.2.1) and as
 * `error_message` (API contract).
 */
function redirectWithError(issuer: string, redirectUri: string, fault: Fault, state: string | undefined): RawResponse {
  const { error, description } = fault;
  const parameters = { error, error_description: description, error_message: description, state, iss: issuer };
  return redirectAnswer(withParameters(redirectUri, parameters));
}

/** Returns the session of a person who may decide on this page, or the response with which the request ends early. */
export async function decidingSession(
  { people, root }: Pick<Consenting, 'people' | 'root'>,
  page: Flow['page'],
  rawRequest: RawRequest,
): Promise<Session | RawResponse> {
  const session = await people.sessions.find(rawRequest);
  if (session === null) return redirectAnswer(signIn(root, page, rawRequest));
  if (session.mustEnrol) return redirectAnswer(enrolmentPath(root));
  return session.isEmailVerified ? session : unverifiedAnswer(root, session.email);
}

/** Runs the steps shared by the page and its form. Returns a response if they end early. */
async function prepareConsent(consenting: Consenting, rawRequest: RawRequest): Promise<Consent | RawResponse> {
  const { runtime, people, documents } = consenting;
  const { authUrl: issuer } = runtime.config;
  const { rawQuery, query, now } = rawRequest;
  // Only a signed-in person makes this server fetch a document.
  const early = isClientUrl(query.get('client_id') ?? '')
    ? await decidingSession(consenting, 'authorize', rawRequest)
    : undefined;
  if (early !== undefined && 'status' in early) return early;
  const result = await readAuthorization(runtime, rawQuery, early && ((url) => documents.find(url, early, now)));
  if (result.kind === 'refused') {
    const ownerId = result.received.client?.ownerId ?? null;
    const visitor = ownerId === null ? null : await people.sessions.find(rawRequest);
    // The app's owner also sees the registered addresses.
    return htmlAnswer(400, refusalPage({ ...result, isOwner: visitor !== null && visitor.userId === ownerId }));
  }
  // RFC 9700 §4.11.2: anyone may register a client; its errors are sent by redirect only after the user has signed in.
  const session = early ?? (await decidingSession(consenting, 'authorize', rawRequest));
  if ('status' in session) return session;
  if (result.kind === 'rejected') return redirectWithError(issuer, result.redirectUri, result.fault, result.state);
  const { request } = result;
  const { redirectUri, state } = request;
  return openConsent(consenting, {
    request,
    session,
    flow: {
      page: 'authorize',
      formTargets: formTargets(redirectUri),
      bound: boundToRequest(request),
      // RFC 9207: `iss` identifies the authorization server to the client.
      allowed: (code) => redirectAnswer(withParameters(redirectUri, { code, state, iss: issuer })),
      denied: () => redirectWithError(issuer, redirectUri, rejections.accessDenied, state),
    },
  });
}

/**
 * Reads what the consent page shows beside the request. Stores that require a second factor are not offered to a person without one,
 * who is asked to set it up if that leaves nothing to allow, or the app would reach these stores with the whole account.
 */
export async function openConsent(
  { runtime: { sql }, people, effects, root }: Consenting,
  { request, session, flow }: Pick<Consent, 'request' | 'session' | 'flow'>,
): Promise<Consent | RawResponse> {
  const ofPerson = await storesOf(sql, session.userId);
  const memberOf = ofPerson.filter(({ requiresFactor }) => session.hasFactor || !requiresFactor);
  const isClosed = memberOf.length < ofPerson.length;
  if (isClosed && (memberOf.length === 0 || !isForStore(request.scope))) return redirectAnswer(enrolmentForStore(root));
  const stores = isForStore(request.scope) ? memberOf : [];
  const resumable = maySend(request.scope) ? memberOf.map(({ id }) => id) : [];
  const { id } = request.client;
  const counts = id === null ? [] : await effects.countStopped(sql, id, resumable);
  const stopped = new Map(counts.map(({ storeId, count }) => [storeId, count]));
  return { request, session, flow, stores, stopped, nonce: people.signedIn.nonce(session, flow.bound) };
}

function showConsent(
  { root }: Pick<Consenting, 'root'>,
  consent: Consent,
  rawRequest: RawRequest,
  status = 200,
  alert?: string,
): RawResponse {
  const { request, session, flow, stores, stopped, nonce } = consent;
  const { email } = session;
  const action = path(root, flow.page, rawRequest.query);
  const switchUser = signIn(root, flow.page, rawRequest);
  const checked = rawRequest.method === 'POST' ? rawRequest.form.getAll('permission') : null;
  const view = { request, email, stores, stopped, checked, nonce, action, switchUser, root, alert };
  return htmlAnswer(status, consentPage(view), { formTargets: flow.formTargets });
}

/** Shows the page again, or what the steps before it respond now. */
async function showAgain(page: ConsentPage, rawRequest: RawRequest): Promise<RawResponse> {
  const again = await page.prepare(rawRequest);
  return 'status' in again ? again : showConsent(page, again, rawRequest, 409, GONE);
}

/** Returns whether the app's webhooks may send under a grant with this scope. */
const maySend = ({ permissions }: GrantedScope): boolean => permissions?.includes('webhooks') ?? true;

/** Returns what the user allowed: of several limited scopes, those that are still checked. A single one is not optional. */
function grantedIn(form: URLSearchParams, { scope, permissions }: GrantedScope): GrantedScope | undefined {
  if (permissions === null || permissions.length === 1) return { scope, permissions };
  const allowed = permissionsAmong(form.getAll('permission').filter((name) => permissions.some((p) => p === name)));
  return allowed.length === 0 ? undefined : { scope, permissions: allowed };
}

/**
 * Takes an approval of an app that declares a webhook from what the person, its app and its host get at a time. The end of access is
 * not limited, because it has to be possible at once, but there is none without an approval.
 */
function takeApproval(
  { throttle }: People,
  { request: { client }, session }: Consent,
  now: Date,
): ReturnType<Throttle['take']> {
  const { clientId, webhookUrl } = client;
  if (webhookUrl === null) return throttle.take([], now);
  const { hostname } = new URL(webhookUrl);
  return throttle.take(
    [
      { limit: 'approvals by person', subject: String(session.userId) },
      { limit: 'approvals of app', subject: clientId },
      { limit: 'approvals to host', subject: hostname },
    ],
    now,
  );
}

async function approve(
  page: ConsentPage,
  consent: Consent,
  { store, granted }: { store: PickableStore | undefined; granted: GrantedScope },
  rawRequest: RawRequest,
): Promise<RawResponse> {
  const { session, flow, stopped } = consent;
  const { runtime, people, effects, documents } = page;
  const { sql, config } = runtime;
  const { securityMails } = people;
  const client = await documents.keep(consent.request.client, {
    origin: originOf(rawRequest),
    now: rawRequest.now,
  });
  if (client === undefined) return showAgain(page, rawRequest);
  const request = { ...consent.request, client };
  const { userId, email } = session;
  const isNew =
    securityMails !== undefined && !(await hasGrant(sql, { userId, client: client.id, storeId: store?.id ?? null }));
  const resumes = rawRequest.form.has('resume') && maySend(granted);
  const resumedStores = resumes ? (store === undefined ? [...stopped.keys()] : [store.id]) : [];
  const { codeLifetimeSeconds } = config.oauth;
  const approval = { request, session, store, granted, resumedStores, rawRequest, codeLifetimeSeconds };
  const taken = await takeApproval(people, consent, rawRequest.now);
  if (!taken.allowed) {
    const seconds = String(taken.retryAfterSeconds);
    const response = showConsent(page, consent, rawRequest, 429, `${TOO_MANY} ${seconds} seconds.`);
    return { ...response, headers: { ...response.headers, 'Retry-After': seconds } };
  }
  const code = await recordApproval(sql, effects, approval);
  if (code === undefined) {
    await taken.giveBack();
    return showAgain(page, rawRequest);
  }
  const app = { name: client.name, place: store?.name ?? null };
  if (isNew) securityMails?.send(rawRequest, { id: userId, email }, appConnected(app));
  return flow.allowed(code, { ...granted, storeId: store?.id ?? null });
}

async function decide(page: ConsentPage, consent: Consent, posted: RawRequest): Promise<RawResponse> {
  const { runtime, people } = page;
  const { stepUp } = people.factors;
  const { request, session, flow, stores } = consent;
  const form = stepUp.restored(posted, session);
  const rawRequest = { ...posted, form };
  if (!people.signedIn.isNonce(form.get('nonce'), session, flow.bound))
    return showConsent(page, consent, rawRequest, 403, CHANGED);
  const decision = form.get('decision');
  if (decision === 'deny') {
    const isDenied = await recordDenial(runtime.sql, { request, session, rawRequest });
    return isDenied ? flow.denied() : showAgain(page, rawRequest);
  }
  if (decision !== 'allow') return showConsent(page, consent, rawRequest, 422, UNDECIDED);
  const granted = grantedIn(form, request.scope);
  if (granted === undefined) return showConsent(page, consent, rawRequest, 422, NO_PERMISSION);
  const store = isForStore(granted) ? stores.find(({ id }) => String(id) === form.get('store')) : undefined;
  if (isForStore(granted) && store === undefined) return showConsent(page, consent, rawRequest, 422, NO_STORE);
  // Access that can only read needs no step-up, unless the page shows its tokens.
  const confirmation =
    maySend(granted) || request.own !== undefined
      ? await stepUp.confirm(rawRequest, session, flow.formTargets)
      : undefined;
  return confirmation ?? approve(page, consent, { store, granted }, rawRequest);
}

/** Returns the `form-action` sources of a sign-in page that returns to a request whose error goes to its client. */
export async function targetsAfterSignIn(runtime: Runtime, returnTo: string): Promise<readonly string[]> {
  const { authUrl } = runtime.config;
  const { pathname, search, searchParams } = new URL(returnTo, authUrl);
  if (pathname !== `${rootOf(authUrl)}/authorize`) return [];
  if (isClientUrl(searchParams.get('client_id') ?? '')) {
    // The document is fetched after the sign-in.
    const redirectUri = searchParams.get('redirect_uri') ?? '';
    return whyNotRegistrable(redirectUri) === undefined ? formTargets(redirectUri) : [];
  }
  const result = await readAuthorization(runtime, search.slice(1));
  return result.kind === 'rejected' ? formTargets(result.redirectUri) : [];
}

/**
 * Creates the page and its form, which repeats the steps before the page. Every request requires consent, because an earlier approval does
 * not make a later request safe.
 */
export function createConsentPage(consenting: Consenting, prepare: Prepare): { show: RawHandler; decide: RawHandler } {
  return {
    show: async (request) => {
      const consent = await prepare(request);
      return 'status' in consent ? consent : showConsent(consenting, consent, request);
    },
    decide: async (request) => {
      const consent = await prepare(request);
      return 'status' in consent ? consent : decide({ ...consenting, prepare }, consent, request);
    },
  };
}

export function createAuthorize(consenting: Consenting): { show: RawHandler; decide: RawHandler } {
  return createConsentPage(consenting, (request) => prepareConsent(consenting, request));
}

function boundToRequest(request: AuthorizationRequest): readonly unknown[] {
  const { client, redirectUri, scope, state, codeChallenge } = request;
  const names = scopeNames(scope).join(' ');
  // A document may say something else when the person decides than it said when the page was shown.
  const shown = documentHost(client.clientId) === undefined ? null : settingsHash(client);
  return ['authorize', client.clientId, shown, redirectUri, names, scope.storeId ?? null, state, codeChallenge];
}
