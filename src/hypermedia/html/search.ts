/**
 * What a collection is narrowed to, in words and each with a way to drop it, and the form that narrows it further. Everything
 * is read from the address that the document has of itself, so what somebody bookmarks or writes by hand is told as well.
 */
import { formatDate, parseDate } from '../date.ts';
import type { Document, Naming, Search } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { shownDateOf } from '../shown-date.ts';
import { harmless, shortened } from './harmless.ts';
import { hrefOf, linkTo } from './links.ts';
import { isTrue } from './values.ts';
import { labelOf, phraseOf } from './words.ts';

/** Parameters that leave nothing out. */
const SHAPES: ReadonlySet<string> = new Set(['offset', 'limit', 'order', 'fields', 'zoom']);

/** Marks a query that a form of ours has sent: what is empty in it is not asked for, and dates are in the zone it names. */
export const SEARCH = '_search';

const VALUE_CHARACTERS = 60;

type Parameter = readonly [name: string, value: string];
type Asked = { path: string; parameters: readonly Parameter[]; filters: readonly Parameter[] };

/** What the address of a document asks for. */
export const askedOf = (document: Document, naming: Naming): Asked => {
  const href = hrefOf(linkTo(document, 'self')?.href ?? '', naming) ?? '';
  const [path = '', query = ''] = href.split('?', 2);
  const parameters = [...new URLSearchParams(query)];
  return { path, parameters, filters: parameters.filter(([name]) => !SHAPES.has(name)) };
};

/** By the operator, of a date and of anything else. */
const WORDS: Readonly<Record<string, readonly [date: string, other: string]>> = {
  not: ['not', 'not'],
  greaterthan: ['after', 'above'],
  lessthan: ['before', 'below'],
};

const partsOf = (name: string): readonly [property: string, operator: string] => {
  const at = name.indexOf(':');
  return at === -1 ? [name, ''] : [name.slice(0, at), name.slice(at + 1)];
};

/** `date_created:lessthan` → `Date created before`. */
const labelOfParameter = (name: string, isDate: boolean): string => {
  const [property, operator] = partsOf(name);
  const words = Object.hasOwn(WORDS, operator) ? WORDS[operator] : undefined;
  return words === undefined ? labelOf(property) : `${labelOf(property)} ${words[isDate ? 0 : 1]}`;
};

type Fields = Search['fields'];

const told = ([name, value]: Parameter, fields: Fields): Markup => {
  const at = parseDate(value);
  const field = fields.find((one) => one.name === name);
  const isDate = at !== undefined && partsOf(name)[1] !== '';
  const flag = field?.kind === 'boolean' ? (isTrue(value) ? 'Yes' : 'No') : undefined;
  const text = value === '' ? 'not set' : (flag ?? harmless(shortened(phraseOf(value), VALUE_CHARACTERS)));
  const label = harmless(shortened(labelOfParameter(name, isDate), VALUE_CHARACTERS));
  return html`${label}${isDate ? ' ' : ': '}${(isDate ? shownDateOf(value) : undefined) ?? text}`;
};

const addressWith = (path: string, parameters: readonly Parameter[]): string =>
  parameters.length === 0 ? path : `${path}?${new URLSearchParams(parameters.map(([...pair]) => pair)).toString()}`;

/** Without one of them; another page of what is found then would be any. */
const without = ({ path, parameters }: Asked, dropped: Parameter): string =>
  addressWith(
    path,
    parameters.filter((one) => one !== dropped && one[0] !== 'offset'),
  );

/** What the collection is narrowed to; a click drops it. */
const inForce = (asked: Asked, fields: Fields): Markup | false =>
  asked.filters.length > 0 &&
  html`<p class="filters">
    <span class="soft">Only</span>
    ${asked.filters.map(
      (filter) =>
        html`<a href="${without(asked, filter)}"
          >${told(filter, fields)} <span aria-hidden="true">×</span><span class="unseen"> (drop this)</span></a
        >`,
    )}
  </p>`;

const option = (value: string, text: string, present: string): Markup =>
  html`<option value="${value}" ${value === present && html`selected`}>${text}</option>`;

const select = (id: string, name: string, present: string, choices: readonly Parameter[]): Markup => {
  // What is asked for and is none of the choices is not changed by asking for something else beside it.
  const all = choices.some(([value]) => value === present) ? choices : [[present, present] as const, ...choices];
  return html`<select id="${id}" name="${name}">
    ${option('', 'Any', present)}
    ${all.filter(([value]) => value !== '').map(([value, text]) => option(value, text, present))}
  </select>`;
};

/** As `datetime-local` takes it, in that zone; empty where it is no date. */
const localOf = (value: string, timeZone: string): string => {
  const at = parseDate(value);
  return at === undefined ? '' : formatDate(at, timeZone).slice(0, 'yyyy-mm-ddThh:mm'.length);
};

const control = (id: string, field: Fields[number], present: string, timeZone: string): Markup => {
  const { name, kind, choices } = field;
  if (choices !== undefined)
    return select(
      id,
      name,
      present,
      choices.map((choice) => [choice, phraseOf(choice)]),
    );
  if (kind === 'boolean') {
    const normal = present === '' ? '' : isTrue(present) ? '1' : '0';
    return select(id, name, normal, [
      ['1', 'Yes'],
      ['0', 'No'],
    ]);
  }
  if (kind === 'date')
    return html`<input type="datetime-local" id="${id}" name="${name}" value="${localOf(present, timeZone)}" />`;
  return html`<input type="text" id="${id}" name="${name}" value="${present}" spellcheck="false" />`;
};

const form = (asked: Asked, { fields, timeZone }: Search): Markup => {
  const names = new Set(fields.map(({ name }) => name));
  const kept = asked.parameters.filter(([name]) => name !== 'offset' && !names.has(name));
  const presentOf = (name: string) => asked.parameters.find((one) => one[0] === name)?.[1] ?? '';
  const isSet = fields.some(({ name }) => presentOf(name) !== '');
  const hasDates = fields.some(({ kind }) => kind === 'date');
  return html`<details class="search" ${isSet && html`open`}>
    <summary>Search</summary>
    <form method="get" action="${asked.path}" role="search">
      <input type="hidden" name="${SEARCH}" value="${timeZone}" />
      ${kept.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
      <div class="fields">
        ${fields.map((field, at) => {
          const id = `search-${at}`;
          return html`<div class="field">
            <label for="${id}">${labelOfParameter(field.name, field.kind === 'date')}</label>
            ${control(id, field, presentOf(field.name), timeZone)}
          </div>`;
        })}
      </div>
      <p class="soft">
        What you leave empty does not count; <code>*</code> stands for any characters.
        ${hasDates && `Times are those of the store (${timeZone}).`}
      </p>
      <div class="buttons"><button type="submit">Search</button></div>
    </form>
  </details>`;
};

/** What stands above the table of a collection. */
export const searchPart = (document: Document, naming: Naming): Markup => {
  const asked = askedOf(document, naming);
  const { search } = document;
  return html`${search !== undefined && form(asked, search)} ${inForce(asked, search?.fields ?? [])}`;
};
