/** What a document is: its properties, what is embedded in it, and in that again. */
import type { Document, Embedded, Naming, Property } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { harmless } from './harmless.ts';
import { linkRow } from './links.ts';
import { table, type Rest } from './table.ts';
import { timeline } from './timeline.ts';
import { cellValue, isUnset, shownValue } from './values.ts';
import { inSentence, labelOf } from './words.ts';

/** HTML has no deeper headings. */
const LEVEL_MAX = 6;

const heading = (level: number, text: string): Markup => {
  const words = harmless(text);
  if (level <= 2) return html`<h2>${words}</h2>`;
  if (level === 3) return html`<h3>${words}</h3>`;
  if (level === 4) return html`<h4>${words}</h4>`;
  return level < LEVEL_MAX ? html`<h5>${words}</h5>` : html`<h6>${words}</h6>`;
};

/** A secret that is null may be there, and not be the reader's to see: that is said of it by itself. */
const isNothing = ({ kind, value }: Property): boolean => kind !== 'secret' && isUnset(value);

/** From so many on, what is not set is told together. */
const NOTHINGS = 2;

/** So many numbers and nothing else are read side by side. */
const FIGURES = 4;
const areFigures = (properties: readonly Property[]): boolean =>
  properties.length >= FIGURES &&
  properties.every(({ kind }) => kind === 'number' || kind === 'count') &&
  properties.some(({ value }) => !isUnset(value));

const figures = (properties: readonly Property[]): Markup =>
  html`<dl class="figures">
    ${properties.map(
      (property) =>
        html`<div>
          <dt>${harmless(labelOf(property.name))}</dt>
          <dd>${cellValue(property)}</dd>
        </div>`,
    )}
  </dl>`;

/** Names and values. */
export const propertyList = (properties: readonly Property[]): Markup | false => {
  if (areFigures(properties)) return figures(properties);
  const nothings = properties.filter(isNothing);
  const isTold = (property: Property): boolean => nothings.length < NOTHINGS || !isNothing(property);
  return (
    properties.length > 0 &&
    html`<dl>
      ${properties.filter(isTold).map(
        (property) =>
          html`<dt>${harmless(labelOf(property.name))}</dt>
            <dd>${shownValue(property)}</dd>`,
      )}
      ${
        nothings.length >= NOTHINGS &&
        html`<dt>Not set</dt>
          <dd class="soft">${harmless(nothings.map(({ name }) => inSentence(name)).join(', '))}</dd>`
      }
    </dl>`
  );
};

/** What is embedded, beside the document that it stands in. */
export const part = (embedded: Embedded, above: Document, naming: Naming, level = 2, of?: string): Markup =>
  embedded.isTimeline === true && embedded.documents.length > 0
    ? html`${heading(level, embedded.title ?? labelOf(embedded.rel))} ${timeline(embedded.documents, above, naming)}`
    : section(embedded, naming, level, of);

/** One that stands inside of another: without forms, which it has on a page of its own. */
const inner = (document: Document, naming: Naming, level: number, name: string): Markup =>
  html`${propertyList(document.properties)} ${linkRow(document, naming)}
  ${document.embedded.map((embedded) => part(embedded, document, naming, level, name))}`;

/** Several as a table, one as a list of its properties. */
export const several = ({ documents }: Embedded, naming: Naming, label: string, level: number): Markup => {
  const more = (document: Document, { name, properties, hasPage }: Rest): Markup | false => {
    const hasMore = properties.length > 0 || document.embedded.some((below) => below.documents.length > 0);
    if (!hasMore) return false;
    return inner({ ...document, properties, links: hasPage ? [] : document.links }, naming, level + 1, name);
  };
  return table(documents, naming, { label, more });
};

/** One relation with its heading. `of` is what has it, where others on the page may have such a one, too. */
const section = (embedded: Embedded, naming: Naming, level: number, of?: string): Markup => {
  const { rel, documents, single } = embedded;
  const [only] = documents;
  const title = embedded.title ?? labelOf(rel);
  if (only === undefined)
    return html`${heading(level, title)}
      <p class="soft">None</p>`;
  if (single === true) return html`${heading(level, title)} ${inner(only, naming, level + 1, title)}`;
  return html`${heading(level, title)}
  ${several(embedded, naming, of === undefined ? title : `${title} of ${of}`, level)}`;
};
