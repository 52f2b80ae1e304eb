/**
 * HTML templates that escape their values: `html` is the only way to create a `Markup`. Texts that people read are shown without the
 * effect of control characters, so that no name changes the text around it.
 */
import { harmless } from '#core/text.ts';

const MARKUP = Symbol('markup');

export type Markup = { readonly [MARKUP]: string };
type Part = Markup | string | number | null | undefined | false | readonly Part[];

/** Most texts contain none of these and need no escaping. */
const SPECIAL = /[&<>"']/;

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes a text for element content and for attribute values in double quotes. */
const escapeHtml = (value: string): string => value.replace(/[&<>"']/g, (character) => escapes[character] ?? character);

const escaped = (text: string): string => (SPECIAL.test(text) ? escapeHtml(text) : text);

function toHtml(part: Part, isShown: boolean): string {
  if (part === null || part === undefined || part === false) return '';
  if (typeof part === 'string') return escaped(isShown ? harmless(part) : part);
  if (typeof part === 'number') return String(part);
  if (MARKUP in part) return part[MARKUP];
  let text = '';
  for (const one of part) text += toHtml(one, isShown);
  return text;
}

/** Values that controls send back, and that scripts of passkeys read. */
const isKept = (before: string): boolean => before.endsWith('="') && /(?:value|data-passkey-[a-z]+)="$/.test(before);

/** Returns a text as it is, for the content of a text area, which is sent back. */
export function kept(text: string): Markup {
  return { [MARKUP]: escaped(text) };
}

// A loop: a page of 20 items has several hundred templates, and `reduce` took 1.5 times as long.
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  let before = strings[0] ?? '';
  let text = before;
  for (let index = 0; index < parts.length; index += 1) {
    text += toHtml(parts[index], !isKept(before));
    before = strings[index + 1] ?? '';
    text += before;
  }
  return { [MARKUP]: text };
}

/** Returns the HTML of a Markup. */
export function render(markup: Markup): string {
  return markup[MARKUP];
}

/** Marks a constant (the style sheet) as safe HTML. Never for external input. */
export function constant(text: string): Markup {
  return { [MARKUP]: text };
}
