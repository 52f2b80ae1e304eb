/** HTML that is escaped unless it was made here: `html` is the only way to a `Markup`. */
const MARKUP = Symbol('markup');

export type Markup = { readonly [MARKUP]: string };
type Part = Markup | string | number | null | undefined | false | readonly Part[];

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escaped for element content and for attribute values in double quotes. */
const escapeHtml = (value: string): string => value.replace(/[&<>"']/g, (character) => escapes[character] ?? character);

const toHtml = (part: Part): string => {
  if (part === null || part === undefined || part === false) return '';
  if (typeof part === 'string') return escapeHtml(part);
  if (typeof part === 'number') return String(part);
  if (MARKUP in part) return part[MARKUP];
  return part.map(toHtml).join('');
};

export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Markup => ({
  [MARKUP]: strings.reduce((text, string, index) => text + toHtml(parts[index - 1]) + string),
});

/** The text of a Markup, for the answer's body. */
export const render = (markup: Markup): string => markup[MARKUP];

/** A constant of our own (the style sheet) that goes in as it is. Never for anything that came from outside. */
export const constant = (text: string): Markup => ({ [MARKUP]: text });
