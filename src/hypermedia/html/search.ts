/**
 * Renders the active filters of a collection with links to remove them, and the search form. Both are read from the
 * document's own address, so bookmarked and hand-written queries are shown, too.
 */
import { formatDate, parseDate } from '../date.ts';
import type { Document, Naming, Search } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { shownDateOf } from '../shown-date.ts';
import { harmless, shortened } from './harmless.ts';
import { hrefOf, linkTo } from './links.ts';
import { isTrue } from './values.ts';
import { labelOf, phraseOf } from './words.ts';

/** Parameters that do not filter. */
const NON_FILTERS: ReadonlySet<string> = new Set(['offset', 'limit', 'order', 'fields', 'zoom']);

/** Marks the query of a search form: empty fields are ignored, and dates are in the time zone that it names. */
export const SEARCH = '_search';

const VALUE_CHARACTERS = 60;

type Parameter = readonly [name: string, value: string];
type ParsedAddress = { path: string; parameters: readonly Parameter[]; filters: readonly Parameter[] };

/** Parses the address of a document. */
export function parseAddress(document: Document, naming: Naming): ParsedAddress {
  const href = hrefOf(linkTo(document, document.search?.at ?? 'self')?.href ?? '', naming) ?? '';
  const [path = '', query = ''] = href.split('?', 2);
  const parameters = [...new URLSearchParams(query)];
  return { path, parameters, filters: parameters.filter(([name]) => !NON_FILTERS.has(name)) };
}

/** Texts of operators, for dates and for other values. */
const OPERATOR_TEXTS: Readonly<Record<string, readonly [date: string, other: string]>> = {
  not: ['not', 'not'],
  greaterthan: ['after', 'above'],
  lessthan: ['before', 'below'],
};

function partsOf(name: string): readonly [property: string, operator: string] {
  const at = name.indexOf(':');
  return at === -1 ? [name, ''] : [name.slice(0, at), name.slice(at + 1)];
}

/** Returns `Date created before` for `date_created:lessthan`. */
function labelOfParameter(name: string, isDate: boolean): string {
  const [property, operator] = partsOf(name);
  const words = Object.hasOwn(OPERATOR_TEXTS, operator) ? OPERATOR_TEXTS[operator] : undefined;
  return words === undefined ? labelOf(property) : `${labelOf(property)} ${words[isDate ? 0 : 1]}`;
}

type Fields = Search['fields'];

function filterText([name, value]: Parameter, fields: Fields): Markup {
  const at = parseDate(value);
  const field = fields.find((parameter) => parameter.name === name);
  const isDate = at !== undefined && partsOf(name)[1] !== '';
  const flag = field?.kind === 'boolean' ? (isTrue(value) ? 'Yes' : 'No') : undefined;
  const text = value === '' ? 'not set' : (flag ?? harmless(shortened(phraseOf(value), VALUE_CHARACTERS)));
  const label = harmless(shortened(labelOfParameter(name, isDate), VALUE_CHARACTERS));
  return html`${label}${isDate ? ' ' : ': '}${(isDate ? shownDateOf(value) : undefined) ?? text}`;
}

/** Returns the address of a path with these parameters. */
export function addressWith(path: string, parameters: readonly Parameter[]): string {
  return parameters.length === 0
    ? path
    : `${path}?${new URLSearchParams(parameters.map(([...pair]) => pair)).toString()}`;
}

/** Returns the address without one filter, on the first page. */
const without = ({ path, parameters }: ParsedAddress, removed: Parameter): string =>
  addressWith(
    path,
    parameters.filter((parameter) => parameter !== removed && parameter[0] !== 'offset'),
  );

/** Renders the active filters; a click removes one. */
const activeFilters = (address: ParsedAddress, fields: Fields): Markup | false =>
  address.filters.length > 0 &&
  html`<p class="filters">
    <span class="soft">Filters</span>
    ${address.filters.map(
      (filter) =>
        html`<a href="${without(address, filter)}"
          >${filterText(filter, fields)} <span aria-hidden="true">×</span
          ><span class="unseen"> (remove this filter)</span></a
        >`,
    )}
  </p>`;

const option = (value: string, text: string, current: string): Markup =>
  html`<option value="${value}" ${value === current && html`selected`}>${text}</option>`;

/** Renders a selection whose first choice, `Any`, is no filter. A current value that is not a choice is kept. */
export function select(id: string, name: string, current: string, choices: readonly Parameter[]): Markup {
  const all = choices.some(([value]) => value === current) ? choices : [[current, current] as const, ...choices];
  return html`<select id="${id}" name="${name}">
    ${option('', 'Any', current)}
    ${all.filter(([value]) => value !== '').map(([value, text]) => option(value, text, current))}
  </select>`;
}

/** Returns the date in the format of `datetime-local` in the given zone; empty for invalid dates. */
function localOf(value: string, timeZone: string): string {
  const at = parseDate(value);
  return at === undefined ? '' : formatDate(at, timeZone).slice(0, 'yyyy-mm-ddThh:mm'.length);
}

function control(id: string, field: Fields[number], current: string, timeZone: string): Markup {
  const { name, kind, choices } = field;
  if (choices !== undefined)
    return select(
      id,
      name,
      current,
      choices.map((choice) => [choice, phraseOf(choice)]),
    );
  if (kind === 'boolean') {
    const normalized = current === '' ? '' : isTrue(current) ? '1' : '0';
    return select(id, name, normalized, [
      ['1', 'Yes'],
      ['0', 'No'],
    ]);
  }
  if (kind === 'date')
    return html`<input type="datetime-local" id="${id}" name="${name}" value="${localOf(current, timeZone)}" />`;
  return html`<input type="text" id="${id}" name="${name}" value="${current}" spellcheck="false" />`;
}

function form(address: ParsedAddress, { fields, timeZone }: Search): Markup {
  const names = new Set(fields.map(({ name }) => name));
  const kept = address.parameters.filter(([name]) => name !== 'offset' && !names.has(name));
  const currentValueOf = (name: string) => address.parameters.find((parameter) => parameter[0] === name)?.[1] ?? '';
  const isSet = fields.some(({ name }) => currentValueOf(name) !== '');
  const hasDates = fields.some(({ kind }) => kind === 'date');
  return html`<details class="search" ${isSet && html`open`}>
    <summary>Search</summary>
    <form method="get" action="${address.path}" role="search">
      <input type="hidden" name="${SEARCH}" value="${timeZone}" />
      ${kept.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
      <div class="fields">
        ${fields.map((field, at) => {
          const id = `search-${at}`;
          return html`<div class="field">
            <label for="${id}">${labelOfParameter(field.name, field.kind === 'date')}</label>
            ${control(id, field, currentValueOf(field.name), timeZone)}
          </div>`;
        })}
      </div>
      <p class="soft">
        Empty fields are ignored; <code>*</code> matches any text.
        ${hasDates && `Times are in the time zone of the store (${timeZone}).`}
      </p>
      <div class="buttons"><button type="submit">Search</button></div>
    </form>
  </details>`;
}

/** Renders the search form of a search that was refused, filled with one that is narrower. */
export function narrowerSearch(document: Document, naming: Naming): Markup | false {
  const { search } = document;
  return search !== undefined && form(parseAddress(document, naming), search);
}

/** Renders search form and filters above the table of a collection. */
export function searchPart(document: Document, naming: Naming): Markup {
  const address = parseAddress(document, naming);
  const { search } = document;
  return html`${search !== undefined && form(address, search)} ${activeFilters(address, search?.fields ?? [])}`;
}
