/** The page for whoever tries too often: how long it takes, and what else can be done. */
import { htmlAnswer } from '#http/answers.ts';
import type { RawResponse } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';

const span = (seconds: number): string => {
  if (seconds <= 90) return seconds === 1 ? '1 second' : `${seconds} seconds`;
  return `${Math.ceil(seconds / 60)} minutes`;
};

/** 429 with `Retry-After`. `root` is the path under which the pages live, without a slash at its end. */
export const tooManyAnswer = (
  root: string,
  { retryAfterSeconds }: { retryAfterSeconds: number },
  advice: Markup,
): RawResponse => {
  const page = shell({
    title: 'Too many tries',
    main: html`<div class="card">
      <h1>Too many tries</h1>
      <p class="alert" role="alert">This was tried too often. Try again in ${span(retryAfterSeconds)}.</p>
      ${advice}
      <p><a href="${root}/account">To your account</a></p>
    </div>`,
  });
  return htmlAnswer(429, page, { headers: { 'Retry-After': String(retryAfterSeconds) } });
};

/**
 * For whoever gives passwords. `root` is the path under which the pages live, without a slash at its end; without mail only
 * the operator can hand out a link.
 */
export const signInAdvice = ({ root, sendsMail }: { root: string; sendsMail: boolean }): Markup =>
  html`<p>
      If you do not remember your password,
      ${
        sendsMail
          ? html`<a href="${root}/forgot-password">ask for a link to a new one</a>: that works at once.`
          : html`ask whoever operates this service for a link by which you choose a new one.`
      }
    </p>
    <p>
      You need not wait in a browser in which you have signed in to this account before, unless the password was changed
      since.
    </p>`;
