/** The field for the address that somebody signs in with. */
import { html, type Markup } from '#hypermedia/markup.ts';

/**
 * Not `type="email"`: browsers refuse jörg@example.com there, and send ada@xn--bcher-kva.example for ada@bücher.example,
 * who is then unknown. The keyboard of a phone has its @ all the same, and changes nothing of what is typed.
 */
export const emailInput = (value: string, described: Markup | false): Markup =>
  html`<input
    type="text"
    id="email"
    name="email"
    value="${value}"
    inputmode="email"
    autocomplete="username"
    autocapitalize="none"
    spellcheck="false"
    required
    ${described}
  />`;
