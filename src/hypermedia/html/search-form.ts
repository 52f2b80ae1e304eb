/**
 * Renders the active filters of a collection with links to remove them, and the search form. Both are read from the
 * document's own address, so bookmarked and hand-written queries are shown, too.
 */
import { parseDate } from '../date.ts';
import type { Document, Naming, Search } from '../document.ts';
import { OPERATORS, splitName } from '../list-query.ts';
import { html, type Markup } from '../markup.ts';
import { dateInput, shownDateOf } from '../shown-date.ts';
import { shortened } from '#core/text.ts';
import { isPointer } from '#core/listing.ts';
import { addressWith, hrefOf, linkTo } from './links.ts';
import { isTrue } from './property-values.ts';
import { labelOf, phraseOf } from './words.ts';

/** Parameters that do not filter. */
const NON_FILTERS: ReadonlySet<string> = new Set(['offset', 'limit', 'order', 'fields', 'zoom']);

/** Marks the query of a search form, whose empty fields are ignored. */
export const SEARCH = '_search';

/** Renders the mark of a search form. */
export const searchMark = html`<input type="hidden" name="${SEARCH}" value="1" />`;

const VALUE_CHARACTERS = 60;

const NONE: ReadonlySet<string> = new Set();

type Parameter = readonly [name: string, value: string];
type ParsedAddress = { path: string; parameters: readonly Parameter[]; filters: readonly Parameter[] };

/** Parses the address of a document. */
export function parseAddress(document: Document, naming: Naming): ParsedAddress {
  const href = hrefOf(linkTo(document, document.search?.at ?? 'self')?.href ?? '', naming) ?? '';
  const [path = '', query = ''] = href.split('?', 2);
  const parameters = [...new URLSearchParams(query)];
  return { path, parameters, filters: parameters.filter(([name]) => !NON_FILTERS.has(name)) };
}

/** The operators of a name, and that of a field of a form. */
const ENDS = [...OPERATORS, 'contains'] as const;

/** Texts of operators, for dates and for other values. */
const OPERATOR_TEXTS: Readonly<Record<(typeof ENDS)[number], readonly [date: string, other: string]>> = {
  not: ['not', 'not'],
  in: ['one of', 'one of'],
  greaterthan: ['after', 'above'],
  lessthan: ['before', 'below'],
  greaterthanorequal: ['from', 'at least'],
  lessthanorequal: ['up to', 'at most'],
  isnull: ['not set', 'not set'],
  contains: ['contains', 'contains'],
};

/** The end of the name of a field whose text a value must contain. Only forms have it: a program sends `name=*text*`. */
const CONTAINS = ':contains';

/** Returns the parameter that a program would send for a field of a form. */
export function withWildcards(name: string, value: string): [name: string, value: string] {
  if (!name.endsWith(CONTAINS)) return [name, value];
  return [name.slice(0, -CONTAINS.length), `*${value.replaceAll(/[*\\]/g, String.raw`\$&`)}*`];
}

/** Returns what a form shows in a field for the parameters of an address; empty if no parameter is of this field. */
function valueOf(field: string, parameters: readonly Parameter[]): string {
  const [name] = withWildcards(field, '');
  const value = parameters.find((parameter) => parameter[0] === name)?.[1] ?? '';
  if (name === field) return value;
  const contained = value.slice(1, -1).replaceAll(/\\([*\\])/g, '$1');
  return withWildcards(field, contained)[1] === value ? contained : '';
}

/** Returns `Date created before` for `date_created:lessthan`. */
function labelOfParameter(name: string, isDate: boolean): string {
  const [property, end] = splitName(name);
  const operator = ENDS.find((known) => known === end);
  const label = isPointer(property) ? property : labelOf(property);
  return operator === undefined ? label : `${label} ${OPERATOR_TEXTS[operator][isDate ? 0 : 1]}`;
}

type Fields = Search['fields'];

function filterText([name, value]: Parameter, fields: Fields): Markup {
  const at = parseDate(value);
  const field = fields.find((parameter) => parameter.name === name);
  const operator = splitName(name)[1];
  const isDate = at !== undefined && operator !== undefined;
  const flag = field?.kind === 'boolean' || operator === 'isnull' ? (isTrue(value) ? 'Yes' : 'No') : undefined;
  const text = value === '' ? 'not set' : (flag ?? shortened(phraseOf(value), VALUE_CHARACTERS));
  const label = shortened(labelOfParameter(name, isDate), VALUE_CHARACTERS);
  return html`${label}${isDate ? ' ' : ': '}${(isDate ? shownDateOf(value) : undefined) ?? text}`;
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
  if (kind === 'date') return dateInput(current, timeZone, html`id="${id}" name="${name}"`);
  return html`<input type="text" id="${id}" name="${name}" value="${current}" spellcheck="false" />`;
}

function form(address: ParsedAddress, search: Search, shownElsewhere: ReadonlySet<string>): Markup {
  const { timeZone } = search;
  const currentValueOf = (name: string) => valueOf(name, address.parameters);
  // A value that is not a contained text is shown as it is, because it would be lost otherwise.
  const fields = search.fields.map((field) => {
    const [name] = withWildcards(field.name, '');
    return currentValueOf(field.name) === '' && currentValueOf(name) !== '' ? { ...field, name } : field;
  });
  const names = new Set(fields.map(({ name }) => withWildcards(name, '')[0]));
  const kept = address.parameters.filter(([name]) => name !== 'offset' && !names.has(name));
  const isSet = fields.some(({ name }) => currentValueOf(name) !== '' && !shownElsewhere.has(name));
  return html`<details class="search" ${isSet && html`open`}>
    <summary>Search</summary>
    <form method="get" action="${address.path}" role="search">
      ${searchMark} ${kept.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
      <div class="fields">
        ${fields.map((field, at) => {
          const id = `search-${at}`;
          const isDate = field.kind === 'date';
          return html`<div class="field">
            <label for="${id}">${labelOfParameter(field.name, isDate)}${isDate && ` (${timeZone})`}</label>
            ${control(id, field, currentValueOf(field.name), timeZone)}
          </div>`;
        })}
      </div>
      <p class="soft">
        Empty fields are ignored; <code>*</code> matches any
        text${fields.some(({ name }) => name.endsWith(CONTAINS)) && ', but is an ordinary character in fields labelled “contains”'}.
      </p>
      <div class="buttons"><button type="submit">Search</button></div>
    </form>
  </details>`;
}

/** Renders the search form of a search that was refused, filled with one that is narrower. */
export function narrowerSearch(document: Document, naming: Naming): Markup | false {
  const { search } = document;
  return search !== undefined && form(parseAddress(document, naming), search, NONE);
}

/**
 * Renders search form and filters above the table of a collection. The form is open while one of its filters is set, except those
 * that the page shows elsewhere.
 */
export function searchPart(
  document: Document,
  naming: Naming,
  { shownElsewhere = NONE }: { shownElsewhere?: ReadonlySet<string> } = {},
): Markup {
  const address = parseAddress(document, naming);
  const { search } = document;
  const folded = search !== undefined && form(address, search, shownElsewhere);
  return html`${folded} ${activeFilters(address, search?.fields ?? [])}`;
}
