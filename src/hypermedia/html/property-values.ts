/** Renders the value of a property: in full beside its name, or short in a table cell. */
import { isNumber } from '#core/exact-number.ts';
import { isScalar, type Kind, type Property, type Value } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { briefDateOf, shownDateOf } from '../shown-date.ts';
import { sparkline, trendOf, trendWithWords } from './chart/chart-cards.ts';
import { shortened } from '#core/text.ts';
import { shownMoney } from './money.ts';
import { codeBlock, plainText, shownJson } from './structured.ts';
import { isStateName, labelOf, phraseOf, toneOf, type Tone } from './words.ts';

const CELL_CHARACTERS = 60;
/** The number of characters that certainly fit the width of the style sheet. */
const URL_CHARACTERS = 24;
const STATE_CHARACTERS_MAX = 40;

/** Returns the actual kind of a value: `json` may be a plain text, and any kind may contain an object. */
export function kindOf({ kind, value }: Property): Kind {
  if (kind === 'secret' || value === null || (kind === 'trend' && trendOf(value) !== undefined)) return kind;
  if (!isScalar(value)) return 'json';
  if (kind !== 'json') return kind;
  return typeof value === 'string' ? 'text' : isNumber(value) ? 'number' : 'boolean';
}

/** Returns whether the property is a state, which is shown as a badge. */
export function isState(property: Property): boolean {
  const { name, value } = property;
  if (!isStateName(name) || typeof value !== 'string' || value.length > STATE_CHARACTERS_MAX) return false;
  return ['enumeration', 'text'].includes(kindOf(property));
}

export function badge(text: string, tone: Tone): Markup {
  return html`<span class="${tone === '' ? 'badge' : `badge ${tone}`}">${text}</span>`;
}

/** Renders a state as a badge, with its tone. */
export function stateBadge(state: string): Markup {
  return badge(phraseOf(state), toneOf(state));
}

const TRUE: ReadonlySet<Value> = new Set(['1', 1, true, 'true']);

/** Returns whether a boolean is true, also in the spellings `"1"`, `1` and `"true"`. */
export function isTrue(value: Value): boolean {
  return TRUE.has(value);
}

export function isUnset(value: Value): boolean {
  return value === null || value === '';
}

const wholeNumber = new Intl.NumberFormat('en');

/** Renders a bar with its numbers; without a total only the number. */
function progress({ name, value, of = 0 }: Property): Markup | string {
  if (typeof value !== 'number' || of <= 0) return plainText(value);
  const words = `${wholeNumber.format(value)} of ${wholeNumber.format(of)}`;
  return html`<progress value="${value}" max="${of}" aria-label="${labelOf(name)}">${words}</progress> ${words}`;
}

/** Returns the short form that cells and lists share; undefined for long kinds. */
function shortValue(property: Property, kind: Kind): Markup | string | undefined {
  const { value, currency, unit } = property;
  const text = plainText(value);
  if (isState(property)) return stateBadge(text);
  switch (kind) {
    case 'boolean':
      return isTrue(value) ? 'Yes' : 'No';
    case 'date':
      return shownDateOf(text);
    case 'money':
      return shownMoney(value, currency);
    case 'enumeration':
      return phraseOf(text);
    case 'number':
    case 'count':
      return unit === undefined ? text : `${text} ${unit}`;
    case 'progress':
      return progress(property);
    case 'text':
    case 'url':
    case 'code':
    case 'secret':
    case 'json':
    case 'trend':
      return undefined;
  }
}

const lines = (text: string): Markup =>
  text.includes('\n') ? html`<span class="lines">${text}</span>` : html`${text}`;

/** Renders a masked secret that can be revealed without JavaScript; the mask hides its length. */
const reveal = (secret: string): Markup =>
  html`<details class="reveal">
    <summary>
      <span class="mask" aria-hidden="true">••••••••</span> <span class="show">Show</span><span class="hide">Hide</span>
    </summary>
    <code>${secret}</code>
  </details>`;

/** Renders a value beside its name. */
export function shownValue(property: Property): Markup | string {
  const { value } = property;
  const kind = kindOf(property);
  if (property.confirmAt !== undefined)
    return html`<span class="mask" aria-hidden="true">••••••••</span>
      <a href="${property.confirmAt}">Confirm that it is you to show it</a>`;
  if (isUnset(value))
    return html`<span class="soft">${kind === 'secret' ? 'Not set, or not visible to you' : 'Not set'}</span>`;
  const short = shortValue(property, kind);
  if (short !== undefined) return short;
  if (kind === 'secret') return reveal(plainText(value));
  const trend = kind === 'trend' ? trendOf(value) : undefined;
  if (trend !== undefined) return trendWithWords(property, trend);
  if (kind === 'json') return shownJson(value, labelOf(property.name));
  if (kind === 'code') return codeBlock(plainText(value));
  // Never a link: any app may set the url of an endpoint, and a click must not lead to an address that an untrusted
  // party chose.
  if (kind === 'url') return html`<code>${plainText(value)}</code>`;
  return lines(plainText(value));
}

/** Returns the text of a cell, shortened. */
export function cellText(value: Value): string {
  return shortened(plainText(value), CELL_CHARACTERS);
}

/** Renders a value in a cell. Secrets, code and structures have no cells. */
export function cellValue(property: Property): Markup | string {
  const { value } = property;
  if (isUnset(value)) return html`<span class="soft">–</span>`;
  const kind = kindOf(property);
  const trend = kind === 'trend' ? trendOf(value) : undefined;
  if (trend !== undefined) return sparkline(property, trend);
  if (kind === 'url') return html`<code class="brief">${plainText(value)}</code>`;
  const short = kind === 'date' ? briefDateOf(plainText(value)) : shortValue(property, kind);
  return short ?? cellText(value);
}

/** Returns whether a cell shows the whole value. */
export function fitsCell({ kind, value }: Property): boolean {
  return (
    value === null ||
    kind === 'trend' ||
    (isScalar(value) && String(value).length <= (kind === 'url' ? URL_CHARACTERS : CELL_CHARACTERS))
  );
}
