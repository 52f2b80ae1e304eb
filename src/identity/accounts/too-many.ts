/** Renders the page for too many attempts: when to try again, and the alternatives. */
import { htmlAnswer } from '#http/answers.ts';
import type { RawResponse } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';

function span(seconds: number): string {
  if (seconds <= 90) return seconds === 1 ? '1 second' : `${seconds} seconds`;
  return `${Math.ceil(seconds / 60)} minutes`;
}

/** Returns a 429 with `Retry-After`. `root` is the path prefix of the pages, without a trailing slash. */
export function tooManyAnswer(
  root: string,
  { retryAfterSeconds }: { retryAfterSeconds: number },
  advice: Markup,
): RawResponse {
  const page = shell({
    title: 'Too many attempts',
    main: html`<div class="card">
      <h1>Too many attempts</h1>
      <p class="alert" role="alert">Too many attempts. Try again in ${span(retryAfterSeconds)}.</p>
      ${advice}
      <p><a href="${root}/account">Your account</a></p>
    </div>`,
  });
  return htmlAnswer(429, page, { headers: { 'Retry-After': String(retryAfterSeconds) } });
}

/**
 * Returns the advice for throttled password attempts. `root` is the path prefix of the pages, without a trailing slash.
 * Without mail only the operator can create a reset link.
 */
export function signInAdvice({ root, sendsMail }: { root: string; sendsMail: boolean }): Markup {
  return html`<p>
      If you do not remember your password,
      ${
        sendsMail
          ? html`<a href="${root}/forgot-password">request a reset link</a>: you can use it immediately.`
          : html`ask the operator of this service for a reset link.`
      }
    </p>
    <p>
      A browser that has signed in to this account before does not have to wait, unless the password has changed since
      then.
    </p>`;
}
