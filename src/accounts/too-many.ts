/** The page for whoever tries too often: how long it takes, and what else can be done. */
import { htmlAnswer } from '#http/answers.ts';
import type { DoorAnswer } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';

const span = (seconds: number): string => {
  if (seconds <= 90) return seconds === 1 ? '1 second' : `${seconds} seconds`;
  return `${Math.ceil(seconds / 60)} minutes`;
};

/** 429 with `Retry-After`. */
export const tooManyAnswer = (retryAfterSeconds: number, advice: Markup): DoorAnswer => {
  const page = shell({
    title: 'Too many tries',
    main: html`<div class="card">
      <h1>Too many tries</h1>
      <p class="alert" role="alert">This was tried too often. Try again in ${span(retryAfterSeconds)}.</p>
      ${advice}
    </div>`,
  });
  return htmlAnswer(429, page, { headers: { 'Retry-After': String(retryAfterSeconds) } });
};

/** For whoever gives passwords: a link by mail opens the account however often others have guessed at it. */
export const signInAdvice = (root: string): Markup =>
  html`<p>
    If you do not remember your password, <a href="${root}/forgot-password">ask for a link to a new one</a>: that works
    at once. So does signing in from a browser that you have signed in with before.
  </p>`;
