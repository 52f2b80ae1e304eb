/** What came one after the other: each whole, in the order of time. It knows kinds, and no resource. */
import type { Document, Naming, Property } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { exactDateOf } from '../shown-date.ts';
import { harmless } from './harmless.ts';
import { linkRow } from './links.ts';
import { plainText, shownCode } from './structured.ts';
import { fitsCell, isState, isUnset, kindOf, shownValue } from './values.ts';
import { labelOf } from './words.ts';

/** When and how each of them went is told of each, whatever else has the same date. */
const isOfMoment = (property: Property): boolean =>
  isState(property) || property.unit !== undefined || kindOf(property) === 'date';

/** What is short and stands above of all of them is not said again, nor by which number we know it. */
const own = (document: Document, above: Document): Document => {
  const said = new Map(above.properties.filter(fitsCell).map(({ name, value }) => [name, value]));
  const hrefs = new Set(above.links.map(({ href }) => href));
  const isSaid = ({ name, value }: Property): boolean => said.has(name) && said.get(name) === value;
  return {
    ...document,
    properties: document.properties.filter(
      (property) => property.name !== 'id' && !isUnset(property.value) && (isOfMoment(property) || !isSaid(property)),
    ),
    links: document.links.filter(({ href }) => !hrefs.has(href)),
  };
};

type Place = 'head' | 'text' | 'fold';

/** How it went and when stand in one line; a sentence is read; what came along is folded up. */
const placeOf = (property: Property): Place => {
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
};

/** Whoever looks for a moment in a log needs its second. */
const valueOf = (property: Property): Markup | string =>
  (kindOf(property) === 'date' ? exactDateOf(plainText(property.value)) : undefined) ?? shownValue(property);

/** A number without unit is not read without its name. */
const word = (property: Property): Markup => {
  const value = valueOf(property);
  const isNamed = !isState(property) && kindOf(property) !== 'date' && property.unit === undefined;
  return isNamed
    ? html`<span><span class="soft">${harmless(labelOf(property.name))}</span> ${value}</span>`
    : html`<span>${value}</span>`;
};

/** How it went, when and for how long come first. */
const rankOf = (property: Property): number => {
  if (isState(property)) return 0;
  if (kindOf(property) === 'date') return 1;
  return property.unit === undefined ? 3 : 2;
};

const fold = (property: Property): Markup =>
  html`<details class="fold">
    <summary>${harmless(labelOf(property.name))}</summary>
    ${property.kind === 'code' && typeof property.value === 'string' ? shownCode(property.value) : shownValue(property)}
  </details>`;

const moment = (document: Document, naming: Naming): Markup => {
  const places = Map.groupBy(document.properties, placeOf);
  const head = (places.get('head') ?? []).toSorted((one, other) => rankOf(one) - rankOf(other));
  return html`<li>
    <p class="moment">${head.map(word)}</p>
    ${(places.get('text') ?? []).map((property) => html`<p>${shownValue(property)}</p>`)}
    ${(places.get('fold') ?? []).map(fold)} ${linkRow(document, naming)}
  </li>`;
};

/** `above` is the document that they are embedded in. */
export const timeline = (documents: readonly Document[], above: Document, naming: Naming): Markup =>
  html`<ol class="timeline">
    ${documents.map((document) => moment(own(document, above), naming))}
  </ol>`;
