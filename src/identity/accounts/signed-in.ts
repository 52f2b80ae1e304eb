/** Pages and forms that require a signed-in user. */
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { type RawHandler, type RawRequest, type RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html } from '#hypermedia/markup.ts';
import type { Keys } from '#core/keys.ts';
import { formNonce, isFormNonce, type Session, type Sessions } from './sessions.ts';
import type { StepUp } from './factors/step-up.ts';
import { accountNav, cardPage, unverifiedAnswer } from './page-kit.ts';

/** The form's name, then everything that its effect depends on, such as the id of the object it deletes. */
type Bound = readonly unknown[];
type Handle = (request: RawRequest, session: Session) => Promise<RawResponse>;
type Form = (boundTo: (request: RawRequest) => Bound, handle: Handle) => RawHandler;

export type SignedIn = {
  /** Redirects a visitor without a session to sign-in, with the path to return to. */
  page: (handle: Handle) => RawHandler;
  /** Like `page`, also for a person who has to set up a second factor first. */
  enrolmentPage: (handle: Handle) => RawHandler;
  /** Requires that the field `nonce` was issued to this session for `boundTo`. */
  form: Form;
  /** Like `form`, and requires that the person was verified within ten minutes; asks them if not. */
  sensitiveForm: Form;
  /** Like `sensitiveForm`, for a form that asks for the password: a person without a second factor is not asked again. */
  passwordForm: Form;
  /** Like `sensitiveForm`, also for a person who has to set up a second factor first. */
  enrolmentForm: Form;
  /** Returns the value of a form's hidden field `nonce`. */
  nonce: (session: Session, bound: Bound) => string;
  /** Returns whether the nonce was issued to this session for this form. */
  isNonce: (value: string | null, session: Session, bound: Bound) => boolean;
};

export function enrolmentPath(root: string): string {
  return `${root}/account/security`;
}

/** Returns the same path for a person of whom a store requires it, which the page says. */
export function enrolmentForStore(root: string): string {
  return `${enrolmentPath(root)}?required_by=store`;
}

/** Returns the same path for an operator, whose role requires it. */
export function enrolmentForRole(root: string): string {
  return `${enrolmentPath(root)}?required_by=role`;
}

const stalePage = (root: string): string =>
  cardPage(
    'Form expired',
    html`<p class="alert" role="alert">You have signed in again since this form was opened. Nothing was changed.</p>
      <p>Go back, reload the page and submit the form again.</p>`,
    accountNav(root),
  );

/** `isForVerified`: people whose e-mail address is not verified see how to verify it, after all other checks. */
export function createSignedIn(deps: {
  sessions: Sessions;
  authUrl: string;
  nonceKeys: Keys;
  stepUp: StepUp;
  isForVerified?: true;
}): SignedIn {
  const root = rootOf(deps.authUrl);
  const nonce: SignedIn['nonce'] = (session, bound) => formNonce(deps.nonceKeys, session, bound);
  const isNonce: SignedIn['isNonce'] = (value, session, bound) =>
    isFormNonce(value, deps.nonceKeys, { session, bound });

  const enrolmentPage: SignedIn['page'] = (handle) => async (request) => {
    const session = await deps.sessions.find(request);
    if (session !== null) return handle({ ...request, form: deps.stepUp.restored(request, session) }, session);
    const { path, rawQuery } = request;
    // A form target has no page to return to.
    const returnTo = request.method === 'POST' ? `${root}/account` : rawQuery === '' ? path : `${path}?${rawQuery}`;
    return redirectAnswer(`${root}/sign-in?${new URLSearchParams({ return_to: returnTo }).toString()}`);
  };

  const page: SignedIn['page'] = (handle) =>
    enrolmentPage(async (request, session) =>
      session.mustEnrol ? redirectAnswer(enrolmentPath(root)) : handle(request, session),
    );
  const checked =
    (boundTo: (request: RawRequest) => Bound, handle: Handle): Handle =>
    async (request, session) =>
      isNonce(request.form.get('nonce'), session, boundTo(request))
        ? handle(request, session)
        : htmlAnswer(403, stalePage(root));
  const confirmed =
    (handle: Handle): Handle =>
    async (request, session) =>
      (await deps.stepUp.confirm(request, session)) ?? handle(request, session);

  const admitted =
    (handle: Handle): Handle =>
    async (request, session) =>
      session.isEmailVerified || deps.isForVerified === undefined
        ? handle(request, session)
        : unverifiedAnswer(root, session.email);

  return {
    page: (handle) => page(admitted(handle)),
    enrolmentPage: (handle) => enrolmentPage(admitted(handle)),
    nonce,
    isNonce,
    form: (boundTo, handle) => page(checked(boundTo, admitted(handle))),
    sensitiveForm: (boundTo, handle) => page(checked(boundTo, confirmed(admitted(handle)))),
    passwordForm: (boundTo, handle) => {
      const shown = admitted(handle);
      return page(
        checked(boundTo, (request, session) => (session.hasFactor ? confirmed(shown) : shown)(request, session)),
      );
    },
    enrolmentForm: (boundTo, handle) => enrolmentPage(checked(boundTo, confirmed(admitted(handle)))),
  };
}

/**
 * A path on this site: `/`, then printable ASCII without a backslash. A second slash at the start is rejected, because
 * browsers read it as another host (`//evil.example`, `/\evil.example`). Only ASCII, because it is written to a header unchanged.
 */
const RETURN_PATH = /^\/(?!\/)[\x21-\x5b\x5d-\x7e]*$/;

/** Returns the path if it stays on this site, otherwise undefined. */
export function returnPath(text: string | null): string | undefined {
  return text !== null && RETURN_PATH.test(text) ? text : undefined;
}
