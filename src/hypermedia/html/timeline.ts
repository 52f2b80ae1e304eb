/** Renders documents in chronological order, each in full. */
import type { Document, Naming, Property } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { exactDateOf } from '../shown-date.ts';
import { linkRow } from './links.ts';
import { plainText, shownCode } from './structured.ts';
import { fitsCell, isState, isUnset, kindOf, shownValue } from './values.ts';
import { labelOf } from './words.ts';

/** Date, result and duration are shown in each entry, even if they equal those of the parent. */
const isAlwaysShown = (property: Property): boolean =>
  isState(property) || property.unit !== undefined || kindOf(property) === 'date';

/** Returns the document without ids, and without short values and links that the parent shows already. */
function withoutRepeated(document: Document, parent: Document): Document {
  const shownAbove = new Map(parent.properties.filter(fitsCell).map(({ name, value }) => [name, value]));
  const hrefs = new Set(parent.links.map(({ href }) => href));
  const isRepeated = ({ name, value }: Property): boolean => shownAbove.has(name) && shownAbove.get(name) === value;
  return {
    ...document,
    properties: document.properties.filter(
      (property) =>
        property.name !== 'id' && !isUnset(property.value) && (isAlwaysShown(property) || !isRepeated(property)),
    ),
    links: document.links.filter(({ href }) => !hrefs.has(href)),
  };
}

type Place = 'head' | 'text' | 'fold';

/** Returns the place of a property: result and date in the head line; sentences in the text; long values folded. */
function placeOf(property: Property): Place {
  if (isState(property)) return 'head';
  switch (kindOf(property)) {
    case 'date':
    case 'number':
    case 'count':
    case 'money':
    case 'boolean':
    case 'enumeration':
    case 'progress':
      return 'head';
    case 'code':
    case 'json':
    case 'secret':
    case 'trend':
      return 'fold';
    case 'text':
    case 'url':
      return 'text';
  }
}

/** Dates have seconds, for comparison with logs. */
const valueOf = (property: Property): Markup | string =>
  (kindOf(property) === 'date' ? exactDateOf(plainText(property.value)) : undefined) ?? shownValue(property);

/** Renders a property of the head line; numbers without unit are preceded by their name. */
function headItem(property: Property): Markup {
  const value = valueOf(property);
  const isNamed = !isState(property) && kindOf(property) !== 'date' && property.unit === undefined;
  return isNamed
    ? html`<span><span class="soft">${labelOf(property.name)}</span> ${value}</span>`
    : html`<span>${value}</span>`;
}

/** Returns the rank in the head line: result, date, duration, others. */
function rankOf(property: Property): number {
  if (isState(property)) return 0;
  if (kindOf(property) === 'date') return 1;
  return property.unit === undefined ? 3 : 2;
}

const fold = (property: Property): Markup =>
  html`<details class="fold">
    <summary>${labelOf(property.name)}</summary>
    ${property.kind === 'code' && typeof property.value === 'string' ? shownCode(property.value) : shownValue(property)}
  </details>`;

function entry(document: Document, naming: Naming): Markup {
  const places = Map.groupBy(document.properties, placeOf);
  const head = (places.get('head') ?? []).toSorted((one, other) => rankOf(one) - rankOf(other));
  return html`<li>
    <p class="moment">${head.map(headItem)}</p>
    ${(places.get('text') ?? []).map((property) => html`<p>${shownValue(property)}</p>`)}
    ${(places.get('fold') ?? []).map(fold)} ${linkRow(document, naming)}
  </li>`;
}

/** Renders the timeline. `above` is the document that embeds the entries. */
export function timeline(documents: readonly Document[], parent: Document, naming: Naming): Markup {
  return html`<ol class="timeline">
    ${documents.map((document) => entry(withoutRepeated(document, parent), naming))}
  </ol>`;
}
