/** Renders the navigation of a signed-in user's pages. */
import { html, type Markup } from '#hypermedia/markup.ts';

export type Section = 'account' | 'apps';

const entry = (href: string, text: string, isCurrent: boolean): Markup =>
  html`<a href="${href}" ${isCurrent && html`aria-current="page"`}>${text}</a>`;

/** Returns the shell's `nav`. `root` is the path prefix of the pages, without a trailing slash. */
export function accountNav(root: string, current?: Section): Markup {
  return html`<nav aria-label="Your pages">
    ${entry(`${root}/home`, 'Stores', false)} ${entry(`${root}/account#connected`, 'Connected apps', false)}
    ${entry(`${root}/account/clients`, 'Your apps', current === 'apps')}
    ${entry(`${root}/account`, 'Account', current === 'account')}
    <form method="post" action="${root}/sign-out"><button type="submit">Sign out</button></form>
  </nav>`;
}
