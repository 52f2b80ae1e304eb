/** Renders the value of a property: in full beside its name, or short in a table cell. */
import { isNumber } from '#core/exact-number.ts';
import { isScalar, type Kind, type Property, type Value } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { briefDateOf, shownDateOf } from '../shown-date.ts';
import { dataTable } from './data-table.ts';
import { sparkline, trendOf, trendWithWords } from './charts.ts';
import { harmless, isBlank, shortened } from '#core/text.ts';
import { shownMoney, isStateName, labelOf, phraseOf, toneOf, type Tone } from './words.ts';

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
  const { value, cell } = property;
  if (cell !== undefined) return cell;
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

// Renders a list of objects with short members as a table, which is easier to read than JSON.

/** Larger tables are not readable. */
const ROWS_MAX = 100;
const COLUMNS_MAX = 10;

type Row = { readonly [name: string]: Value };

/** All objects inherit `constructor`. */
const memberOf = (row: Row, name: string): Value | undefined => (Object.hasOwn(row, name) ? row[name] : undefined);

const textOf = (value: Value = ''): string => (value === null || !isScalar(value) ? '–' : String(value));

const fits = (value: Value): boolean =>
  typeof value === 'string' ? value.length <= CELL_CHARACTERS && !value.includes('\n') : isScalar(value);

const isRow = (value: Value): value is Row =>
  !isScalar(value) && !Array.isArray(value) && Object.values(value).every(fits);

/**
 * Returns the table with all members; undefined if a table cannot contain them. `label` is its name for screen readers.
 */
export function flatTable(list: readonly Value[], label: string): Markup | undefined {
  if (list.length > ROWS_MAX || !list.every(isRow)) return undefined;
  const names = [...new Set(list.flatMap((row) => Object.keys(row)))];
  if (names.length === 0 || names.length > COLUMNS_MAX || [label, ...names].some(isBlank)) return undefined;
  const numeric = names.map((name) =>
    list.every((row) => {
      const value = memberOf(row, name);
      return value === undefined || isNumber(value);
    }),
  );
  return dataTable(
    label,
    names.map((name, n) => ({ name: labelOf(name), ...(numeric[n] === true && { kind: 'number' as const }) })),
    list.map((row) => names.map((name) => textOf(memberOf(row, name)))),
  );
}

const INLINE_CHARACTERS = 120;
/** Longer texts are folded: the body of a response may have 16 KiB. */
const OPEN_CHARACTERS = 1_200;
const OPEN_LINES = 16;

// Renders values with several lines or parts: lists, objects, code, JSON.

const none = html`<span class="soft">None</span>`;

// The line break after <pre> is not part of its text; without it, a leading line break in the text would be lost.
const block = (text: string): Markup => html`<pre class="copyable">${'\n'}${text}</pre>`;

/** Renders code in full, where the reader has unfolded it. */
export function shownCode(code: string): Markup {
  return block(harmless(code));
}

/** Renders code: inline if it is short, else in a block, folded if it is long. */
function codeBlock(code: string): Markup {
  const text = harmless(code);
  const count = text.split('\n').length;
  if (count === 1 && text.length <= INLINE_CHARACTERS) return html`<code>${text}</code>`;
  if (count <= OPEN_LINES && text.length <= OPEN_CHARACTERS) return block(text);
  const size = count === 1 ? `${text.length} characters` : `${count} lines`;
  return html`<details class="fold">
    <summary>Show all ${size}</summary>
    ${block(text)}
  </details>`;
}

/** Returns any value as one text. */
export function plainText(value: Value): string {
  return isScalar(value) ? String(value) : JSON.stringify(value);
}

const shownScalar = (value: Value): string => (value === null ? '–' : harmless(plainText(value)));

const isList = (value: Value): value is readonly Value[] => Array.isArray(value);

/** Renders a value as a list of words, names with values, a table, or else JSON. `label` names it. */
function shownJson(value: Value, label: string): Markup {
  if (isList(value)) {
    if (value.length === 0) return none;
    if (value.every(isScalar)) {
      return html`<ul class="values">
        ${value.map((item) => html`<li>${shownScalar(item)}</li>`)}
      </ul>`;
    }
    const table = flatTable(value, label);
    if (table !== undefined) return table;
  } else if (!isScalar(value)) {
    const members = Object.entries(value);
    if (members.length === 0) return none;
    if (members.every(([, member]) => isScalar(member))) {
      return html`<dl class="values">
        ${members.map(
          ([name, member]) =>
            html`<dt>${name}</dt>
              <dd>${shownScalar(member)}</dd>`,
        )}
      </dl>`;
    }
  }
  return codeBlock(JSON.stringify(value, null, 2));
}
