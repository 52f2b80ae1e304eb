/** Renders the e-mail field of the sign-in and password forms. */
import { html, type Markup } from '#hypermedia/markup.ts';

/**
 * Not `type="email"`: browsers reject jörg@example.com there, and send ada@xn--bcher-kva.example for ada@bücher.example,
 * which matches no account. `inputmode` still shows the keyboard with @ on phones.
 */
export function emailInput(value: string, described: Markup | false, autocomplete = 'username'): Markup {
  return html`<input
    type="text"
    id="email"
    name="email"
    value="${value}"
    inputmode="email"
    autocomplete="${autocomplete}"
    autocapitalize="none"
    spellcheck="false"
    required
    ${described}
  />`;
}
