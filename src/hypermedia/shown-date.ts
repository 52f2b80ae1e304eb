/** A moment as people read it on the pages. */
import { html, type Markup } from './markup.ts';

const dateFormat = new Intl.DateTimeFormat('en-GB', {
  timeZone: 'UTC',
  day: 'numeric',
  month: 'long',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
});

/** `1 July 2026 at 10:00 UTC`: a person's time zone is not known here, so it is said which this is. */
export const shownDate = (at: Date): Markup =>
  html`<time datetime="${at.toISOString()}">${dateFormat.format(at)} UTC</time>`;
