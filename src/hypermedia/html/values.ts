/** A property's value as people read it: at length beside its name, in short in a cell of a table. */
import type { Kind, Property, Value } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { briefDateOf, shownDateOf } from '../shown-date.ts';
import { sparkline, trendOf, trendWithWords } from './chart/trend.ts';
import { harmless, shortened } from './harmless.ts';
import { shownMoney } from './money.ts';
import { codeBlock, plainText, shownJson } from './structured.ts';
import { isStateName, labelOf, phraseOf, toneOf, type Tone } from './words.ts';

const CELL_CHARACTERS = 60;
/** What is sure to stand in the width that the style sheet gives it. */
const URL_CHARACTERS = 24;
const STATE_CHARACTERS_MAX = 40;

/** The kind that a value really has: `json` may be a plain word, and any kind may turn out to be an object. */
export const kindOf = ({ kind, value }: Property): Kind => {
  if (kind === 'secret' || value === null || (kind === 'trend' && trendOf(value) !== undefined)) return kind;
  if (typeof value === 'object') return 'json';
  if (kind !== 'json') return kind;
  return typeof value === 'string' ? 'text' : typeof value === 'number' ? 'number' : 'boolean';
};

/** Whether it says how something fares: then it is a badge. */
export const isState = (property: Property): boolean => {
  const { name, value } = property;
  if (!isStateName(name) || typeof value !== 'string' || value.length > STATE_CHARACTERS_MAX) return false;
  return ['enumeration', 'text'].includes(kindOf(property));
};

export const badge = (text: string, tone: Tone): Markup =>
  html`<span class="${tone === '' ? 'badge' : `badge ${tone}`}">${harmless(text)}</span>`;

/** A state in words, by how good it is. */
export const stateBadge = (state: string): Markup => badge(phraseOf(state), toneOf(state));

const TRUE: ReadonlySet<Value> = new Set(['1', 1, true, 'true']);

/** Booleans are also spelled `"1"`, `1` and `"true"`. */
export const isTrue = (value: Value): boolean => TRUE.has(value);

export const isUnset = (value: Value): boolean => value === null || value === '';

const wholeNumber = new Intl.NumberFormat('en');

/** A bar, and beside it the numbers it stands for; of nothing there is no part, and no bar. */
const progress = ({ name, value, of = 0 }: Property): Markup | string => {
  if (typeof value !== 'number' || of <= 0) return harmless(plainText(value));
  const words = `${wholeNumber.format(value)} of ${wholeNumber.format(of)}`;
  return html`<progress value="${value}" max="${of}" aria-label="${harmless(labelOf(name))}">${words}</progress>
    ${words}`;
};

/** The same in both places: whatever is short by itself. */
const shortValue = (property: Property, kind: Kind): Markup | string | undefined => {
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
      return harmless(phraseOf(text));
    case 'number':
    case 'count':
      return harmless(unit === undefined ? text : `${text} ${unit}`);
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
};

const lines = (text: string): Markup =>
  text.includes('\n') ? html`<span class="lines">${harmless(text)}</span>` : html`${harmless(text)}`;

/** Masked until somebody asks to see it; the mask does not tell how long it is. Works without JavaScript. */
const reveal = (secret: string): Markup =>
  html`<details class="reveal">
    <summary>
      <span class="mask" aria-hidden="true">••••••••</span> <span class="show">Show</span><span class="hide">Hide</span>
    </summary>
    <code>${harmless(secret)}</code>
  </details>`;

/** Beside its name. */
export const shownValue = (property: Property): Markup | string => {
  const { value } = property;
  const kind = kindOf(property);
  if (isUnset(value))
    return html`<span class="soft">${kind === 'secret' ? 'Not set, or not yours to see' : 'Not set'}</span>`;
  const short = shortValue(property, kind);
  if (short !== undefined) return short;
  if (kind === 'secret') return reveal(plainText(value));
  const trend = kind === 'trend' ? trendOf(value) : undefined;
  if (trend !== undefined) return trendWithWords(property, trend);
  if (kind === 'json') return shownJson(value, labelOf(property.name));
  if (kind === 'code') return codeBlock(plainText(value));
  // Never a link: it is an endpoint for programs, and any app may write there whatever it likes; a click on a page of ours
  // must not lead where a stranger chose.
  if (kind === 'url') return html`<code>${harmless(plainText(value))}</code>`;
  return lines(plainText(value));
};

/** Text in a cell, without what would make the cell too large. */
export const cellText = (value: Value): string => harmless(shortened(plainText(value), CELL_CHARACTERS));

/** In a cell. Secrets, code and structures have none. */
export const cellValue = (property: Property): Markup | string => {
  const { value } = property;
  if (isUnset(value)) return html`<span class="soft">–</span>`;
  const kind = kindOf(property);
  const trend = kind === 'trend' ? trendOf(value) : undefined;
  if (trend !== undefined) return sparkline(property, trend);
  if (kind === 'url') return html`<code class="brief">${harmless(plainText(value))}</code>`;
  const short = kind === 'date' ? briefDateOf(plainText(value)) : shortValue(property, kind);
  return short ?? cellText(value);
};

/** Whether a cell says all of it. */
export const fitsCell = ({ kind, value }: Property): boolean =>
  value === null ||
  kind === 'trend' ||
  (typeof value !== 'object' && String(value).length <= (kind === 'url' ? URL_CHARACTERS : CELL_CHARACTERS));
