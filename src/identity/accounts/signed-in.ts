/** Pages and forms that only somebody who is signed in may see and send. */
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { RawResponse, RawHandler, RawRequest } from '#http/route.ts';
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import type { Keys } from '#core/keys.ts';
import { formNonce, isFormNonce } from './form-nonce.ts';
import { accountNav } from './nav.ts';
import type { Session, Sessions } from './sessions.ts';

/** `bound`: the form's name first, then whatever its effect depends on, such as the id of what it deletes. */
type Bound = readonly (string | number)[];
type Handle = (request: RawRequest, session: Session) => Promise<RawResponse>;

export type SignedIn = {
  /** Whoever is not signed in is sent to do so and comes back. */
  page: (handle: Handle) => RawHandler;
  /** Wants the field `nonce` to be the one that a page of this session was given for `boundTo`. */
  form: (boundTo: (request: RawRequest) => Bound, handle: Handle) => RawHandler;
  /** For the hidden field `nonce` of a form. */
  nonce: (session: Session, bound: Bound) => string;
  /** Whether such a field is one that this session was given. */
  isNonce: (given: string | null, session: Session, bound: Bound) => boolean;
};

const stalePage = (root: string): string =>
  shell({
    title: 'Look again',
    nav: accountNav(root),
    main: html`<div class="card">
      <h1>Look again</h1>
      <p class="alert" role="alert">Since this form was opened you have signed in again. Nothing was changed.</p>
      <p>Go back, load the page again, and send the form from there.</p>
    </div>`,
  });

export const createSignedIn = (deps: { sessions: Sessions; authUrl: string; nonceKeys: Keys }): SignedIn => {
  const root = rootOf(deps.authUrl);
  const nonce: SignedIn['nonce'] = (session, bound) => formNonce(deps.nonceKeys, session, bound);
  const isNonce: SignedIn['isNonce'] = (given, session, bound) =>
    isFormNonce(given, deps.nonceKeys, { session, bound });

  const page: SignedIn['page'] = (handle) => async (request) => {
    const session = await deps.sessions.find(request);
    if (session !== null) return handle(request, session);
    const { path, rawQuery } = request;
    // Where a form was to be sent there is nothing to come back to.
    const back = request.method === 'POST' ? `${root}/account` : rawQuery === '' ? path : `${path}?${rawQuery}`;
    return redirectAnswer(`${root}/sign-in?${new URLSearchParams({ return_to: back }).toString()}`);
  };

  return {
    page,
    nonce,
    isNonce,
    form: (boundTo, handle) =>
      page(async (request, session) =>
        isNonce(request.form.get('nonce'), session, boundTo(request))
          ? handle(request, session)
          : htmlAnswer(403, stalePage(root)),
      ),
  };
};
