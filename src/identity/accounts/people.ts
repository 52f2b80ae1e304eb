/** What verifies people and their browsers: the parts that all pages of people use, and the frame of the forms that ask for the password. */
import { passkeyScriptElements } from '#hypermedia/shell.ts';
import { type Markup, html } from '#hypermedia/markup.ts';
import { htmlAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { RawRequest, RawResponse } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { KeptForm } from '#http/pages/form-post.ts';
import type { Pages, Visitor } from '#http/caller.ts';
import { parseId } from '#core/ids.ts';
import { inPersonOf, type Suspensions } from '#core/principal.ts';
import { suspensionOf } from '#core/problem.ts';
import type { Document } from '#hypermedia/document.ts';
import type { Credentials } from './accounts-sql.ts';
import { createSecurityMails } from './account-mails.ts';
import {
  createAttempts,
  createDevices,
  type Attempts,
  type Devices,
  createThrottle,
  type Throttle,
} from './throttle.ts';
import { createPasskeys, type Passkeys, createSecondFactor, type SecondFactor } from './factors/second-factor.ts';
import {
  createStepUp,
  type StepUp,
  confirmationAt,
  isFresh,
  createSignedIn,
  type SignedIn,
  enrolmentForStore,
  enrolmentPath,
} from './signed-in.ts';
import {
  signInAdvice,
  tooManyAnswer,
  WRONG_PASSWORD,
  type FormFault,
  type FormHandlers,
  type Refused,
  accountNav,
} from './page-kit.ts';
import { createPasswords, type PasswordCost, type Passwords } from './users.ts';
import {
  createSessions,
  type Session,
  cookiesOf,
  frameOriginsOf,
  isOfFrame,
  carried,
  carry,
  CARRIED_MS,
} from './sessions.ts';

/** What checks the proofs of a person or a browser: password, passkey, code, and the cookie of a known device. */
export type SecondFactors = {
  attempts: Attempts;
  devices: Devices;
  passkeys: Passkeys;
  secondFactor: SecondFactor;
  stepUp: StepUp;
  /** The script elements of pages with passkeys. */
  passkeyScripts: Markup;
  /** Advice on the page for too many attempts. */
  advice: Markup;
};

/** Everything that a page needs to know who its visitor is, and to ask them again. */
export type People = ReturnType<typeof createPeople>;

function createFactors(
  runtime: Runtime,
  { passwords, throttle }: { passwords: Passwords; throttle: Throttle },
): SecondFactors {
  const { config, derive, mailer, sql } = runtime;
  const { baseUrl, authUrl } = config;
  const devices = createDevices({ keys: derive('device cookie'), authUrl });
  const passkeys = createPasskeys(runtime);
  const passkeyScripts = passkeyScriptElements((path) => `${rootOf(baseUrl)}${path}`);
  const advice = signInAdvice({ root: rootOf(authUrl), sendsMail: mailer !== undefined });
  const attempts = createAttempts({ sql, passwords, throttle, devices });
  const secondFactor = createSecondFactor(runtime, { passkeys, throttle, devices });
  const stepUp = createStepUp(runtime, { attempts, secondFactor, passkeys, passkeyScripts, advice });
  return { attempts, devices, passkeys, secondFactor, stepUp, passkeyScripts, advice };
}

/** `cost`: of new password hashes. */
export function createPeople(runtime: Runtime, cost: PasswordCost) {
  const { config, derive } = runtime;
  const { authUrl, accounts } = config;
  const passwords = createPasswords({ hashesAtOnce: accounts.passwordHashesAtOnce, cost });
  const sessions = createSessions(runtime);
  const throttle = createThrottle(runtime);
  const factors = createFactors(runtime, { passwords, throttle });
  const { devices, stepUp } = factors;
  const checks = { sessions, authUrl, nonceKeys: derive('form nonce'), stepUp };
  const signedIn = createSignedIn(checks);
  /** The same pages and forms, for people whose e-mail address is verified. */
  const verified = createSignedIn({ ...checks, isForVerified: true });
  /** Undefined if mail is not configured. */
  const securityMails = createSecurityMails(runtime, { devices, throttle });
  return { passwords, sessions, throttle, factors, signedIn, verified, securityMails };
}

/**
 * Creates both handlers of a form that asks for the password: GET renders it with its nonce, POST checks the nonce, `review`s the other
 * fields and then verifies the password, so that a mistake in them is no attempt.
 */
export function passwordPage(
  { config }: Pick<Runtime, 'config'>,
  { factors: { attempts, advice } }: People,
  signedIn: SignedIn,
  form: {
    /** The name of the form, to which its nonce is bound. */
    name: string;
    render: (session: Session, view: { nonce: string; fault: FormFault | undefined; typed: string }) => Promise<string>;
    review?: (request: RawRequest, session: Session) => Promise<Refused | undefined>;
    /** Returns undefined if the password has changed since it was verified. */
    submit: (request: RawRequest, session: Session, user: Credentials) => Promise<RawResponse | undefined>;
  },
): FormHandlers {
  const bound = [form.name] as const;
  const shown = async (session: Session, status = 200, { fault, typed = '' }: Refused = {}) =>
    htmlAnswer(status, await form.render(session, { nonce: signedIn.nonce(session, bound), fault, typed }));
  return {
    show: signedIn.page((_request, session) => shown(session)),
    submit: signedIn.passwordForm(
      () => bound,
      async (request, session) => {
        const refused = await form.review?.(request, session);
        if (refused !== undefined) return shown(session, 422, refused);
        const { email } = session;
        const attempt = await attempts(request, { email, password: request.form.get('current') ?? '' });
        if (attempt.kind === 'too many') return tooManyAnswer(rootOf(config.authUrl), attempt, advice);
        const done = attempt.kind === 'right' ? await form.submit(request, session, attempt.user) : undefined;
        return done ?? shown(session, 422, { fault: WRONG_PASSWORD, typed: request.form.get('email') ?? '' });
      },
    ),
  };
}

/** Returns the stores of which a user is a member, those that the user owns, require a second factor or are suspended, and their names. */
type MembershipsOf = (userId: number) => Promise<{
  stores: readonly number[];
  owned: readonly number[];
  guarded: readonly number[];
  suspended: Suspensions;
  names: ReadonlyMap<number, NamedStore>;
}>;

/** The name of a store in the navigation, and whether it is a sandbox. */
type NamedStore = { name: string; isSandbox: boolean };

/** Returns the tabs and the name of the store that a document belongs to; undefined if it belongs to no store that `nameOf` knows. */
type TabsOf = (
  document: Document,
  nameOf: (storeId: number) => NamedStore | undefined,
) => { tabs: Markup; store: string } | undefined;

/** Browsers discard cookies above 4,096 bytes. */
const COOKIE_BYTES_MAX = 4_000;

const BOUND_TO = 'kept-form';

/** Keeps forms through the sign-in (http/pages/form-post.ts): a cookie carries one, sealed, for ten minutes and for its page. */
function createKeptForms({ sealer, config }: Pick<Runtime, 'sealer' | 'config'>) {
  const { prefix, set } = cookiesOf(config.authUrl);
  const name = `${prefix}-form`;
  return {
    /** Returns the `Set-Cookie` that keeps the form; undefined if the form is too long. */
    keep: (form: KeptForm, now: Date): string | undefined => {
      const value = carry(sealer, BOUND_TO, form, now);
      return value.length > COOKIE_BYTES_MAX ? undefined : set(name, value, CARRIED_MS / 1_000);
    },
    /** Returns the form that was kept for the page, and the `Set-Cookie` that removes it. */
    take: ({ cookies, now }: Pick<RawRequest, 'cookies' | 'now'>, page: string) => {
      const form = carried(sealer, BOUND_TO, cookies[name], now)?.value as KeptForm | undefined;
      return form?.page === page ? { form, cookie: set(name, '', 0) } : undefined;
    },
  };
}

type VisitorRequest = Parameters<Pages['visitorOf']>[0];

/**
 * Returns the function that finds the visitor of a link of the platform: a member without an account, who reaches the addresses of one store,
 * and is no owner there, or the platform could send the secrets of webhooks, which it may not see, to an address of its own. Everything that
 * asks others to prove who they are asks this one to sign in.
 */
function createPortalVisitor(
  { config: { authUrl, accounts } }: Pick<Runtime, 'config'>,
  { sessions, signedIn }: Pick<People, 'sessions' | 'signedIn'>,
  { tabsOf, signInAt }: { tabsOf: TabsOf } & Pick<Pages, 'signInAt'>,
) {
  const root = rootOf(authUrl);
  return async (request: VisitorRequest): Promise<Visitor | null> => {
    const session = await sessions.findPortal(request);
    if (session === null) return null;
    const { storeId, storeName: name, isSandbox, isFramed, userId } = session;
    const { store_id: store, webhook_id: webhook } = request.params ?? {};
    if (store === undefined ? webhook === undefined : parseId(store) !== storeId) return null;
    const signOut = html`<form method="post" action="${root}/sign-out"><button type="submit">Sign out</button></form>`;
    return {
      principal: {
        ...inPersonOf(userId, [storeId]),
        scope: 'store_full_access',
        mustConfirm: true,
      },
      nonceOf: (bound) => signedIn.nonce(session, bound),
      isNonce: (value, bound) => signedIn.isNonce(value, session, bound),
      restored: (form) => form,
      confirmAt: signInAt,
      takeKept: () => undefined,
      enrolAt: () => undefined,
      nav: (document) => {
        const { tabs, store: title } =
          tabsOf(document, (id) => (id === storeId ? { name, isSandbox } : undefined)) ?? {};
        return { nav: html`${!isFramed && html`<nav aria-label="Your pages">${signOut}</nav>`}${tabs}`, store: title };
      },
      ...(isFramed && { frameOrigins: accounts.portalFrameOrigins }),
    };
  };
}

/**
 * A session has the access of a token with `user_full_access`, and additionally acts in person, so it may see what only
 * store owners may see. What a store requires, or its suspension, closes that store alone.
 */
export function createPages(
  runtime: Pick<Runtime, 'config' | 'sealer'>,
  { sessions, signedIn, factors: { stepUp } }: People,
  { membershipsOf, tabsOf }: { membershipsOf: MembershipsOf; tabsOf: TabsOf },
): Pages {
  const { baseUrl, authUrl } = runtime.config;
  const root = rootOf(authUrl);
  const keptForms = createKeptForms(runtime);
  const signInAt = (path: string): string => `${root}/sign-in?${new URLSearchParams({ return_to: path }).toString()}`;
  const portalVisitorOf = createPortalVisitor(runtime, { sessions, signedIn }, { tabsOf, signInAt });
  return {
    signInAt,
    keep: keptForms.keep,
    frameOriginsOf: (request) => frameOriginsOf(runtime.config, request),
    anonymousNav: () => html`<nav aria-label="Your pages"><a href="${root}/sign-in">Sign in</a></nav>`,
    visitorOf: async (request) => {
      // A whole session never works in a frame.
      const isFramed = isOfFrame(runtime.config, request) || frameOriginsOf(runtime.config, request).length > 0;
      const session = isFramed ? null : await sessions.find(request);
      if (session === null) return portalVisitorOf(request);
      const { stores, owned, guarded, suspended, names } = await membershipsOf(session.userId);
      const { userId } = session;
      const closed = new Set(session.hasFactor ? [] : guarded);
      // The page of the own membership stays open, so that the person can leave the store.
      const own = parseId(request.params?.['user_id'] ?? '') === userId ? request.params?.['store_id'] : undefined;
      const isOwn = (storeId: number): boolean => String(storeId) === own;
      const isOpen = (storeId: number): boolean => isOwn(storeId) || !(closed.has(storeId) || suspended.has(storeId));
      const ownMember = (id: number) =>
        html`<a href="${new URL(`${baseUrl}/stores/${id}/members/${userId}`).pathname}">${names.get(id)?.name}</a>`;
      /** Says which stores are closed to a person without a second factor, because no list contains them. */
      const closedStores = () =>
        html`<p class="soft">
          <a href="${enrolmentForStore(root)}">Set up a second factor</a> to open, or leave:
          ${[...closed].map((id) => html`${ownMember(id)} `)}
        </p>`;
      /** Says why a store is closed to all its members. */
      const suspendedStore = ([id, reason]: readonly [number, string]) =>
        html`<p class="alert">${ownMember(id)}: ${suspensionOf('store', reason).message}. You can leave it.</p>`;
      return {
        principal: {
          ...inPersonOf(userId, stores.filter(isOpen), owned.filter(isOpen)),
          suspended,
          ...(!isFresh(session, request.now) && { mustConfirm: true as const }),
        },
        nonceOf: (bound) => signedIn.nonce(session, bound),
        isNonce: (value, bound) => signedIn.isNonce(value, session, bound),
        restored: (form, path) => stepUp.restored({ form, path, now: request.now }, session),
        confirm: (posted) => stepUp.confirm({ ...posted, form: stepUp.restored(posted, session) }, session),
        confirmAt: (path) => (isFresh(session, request.now) ? undefined : confirmationAt(root, path)),
        takeKept: (path) => keptForms.take(request, path),
        enrolAt: (storeId) => {
          if (session.mustEnrol) return enrolmentPath(root);
          const isClosed = storeId !== undefined && closed.has(storeId) && !isOwn(storeId);
          return isClosed ? enrolmentForStore(root) : undefined;
        },
        nav: (document) => {
          const { tabs, store } = tabsOf(document, (storeId) => names.get(storeId)) ?? {};
          return {
            nav: html`${accountNav(root)}${closed.size > 0 && closedStores()}${[...suspended].map(suspendedStore)}${tabs}`,
            store,
          };
        },
      };
    },
  };
}
