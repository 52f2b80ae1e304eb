/** The page of a person whose e-mail address is not verified, instead of what such an account may not do. */
import { htmlAnswer } from '#http/answers.ts';
import type { RawResponse } from '#http/route.ts';
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { accountNav } from './nav.ts';

/** Returns the 403. `root` is the path prefix of the pages, without a trailing slash. */
export function unverifiedAnswer(root: string, email: string): RawResponse {
  const page = shell({
    title: 'Confirm your e-mail address',
    nav: accountNav(root),
    main: html`<div class="card">
      <h1>Confirm your e-mail address</h1>
      <p class="alert" role="alert">Your e-mail address <strong>${email}</strong> is not confirmed.</p>
      <p>
        Your account was made with an invitation link. Until the address is confirmed, it can only work in the store of
        that invitation.
      </p>
      <p>
        To confirm it, choose a new password with a link that is mailed to the address. A new account replaces this one
        then: what belongs to it now ends, also the membership of the store.
      </p>
      <p><a class="button" href="${root}/forgot-password">Get the link</a></p>
    </div>`,
  });
  return htmlAnswer(403, page);
}
