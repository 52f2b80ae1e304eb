/** Renders the content of a document: its properties, and its embedded documents recursively. */
import type { Document, Embedded, Naming, Property } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { linkRow } from './links.ts';
import { table, type RowDetails } from './table.ts';
import { timeline } from './timeline.ts';
import { cellValue, isUnset, shownValue } from './values.ts';
import { inSentence, labelOf } from './words.ts';

/** The deepest heading of HTML. */
const LEVEL_MAX = 6;

function heading(level: number, text: string): Markup {
  if (level <= 2) return html`<h2>${text}</h2>`;
  if (level === 3) return html`<h3>${text}</h3>`;
  if (level === 4) return html`<h4>${text}</h4>`;
  return level < LEVEL_MAX ? html`<h5>${text}</h5>` : html`<h6>${text}</h6>`;
}

/**
 * Returns whether the value is not set. A null secret may exist but not be visible to the reader, so it is shown on its
 * own.
 */
const isUnsetValue = ({ kind, value }: Property): boolean => kind !== 'secret' && isUnset(value);

/** From this number on, unset properties are listed together. */
const UNSET_TOGETHER_MIN = 2;

/** From this number on, a list of numbers only is shown side by side. */
const FIGURES_MIN = 4;
const areFigures = (properties: readonly Property[]): boolean =>
  properties.length >= FIGURES_MIN &&
  properties.every(({ kind }) => kind === 'number' || kind === 'count') &&
  properties.some(({ value }) => !isUnset(value));

const figures = (properties: readonly Property[]): Markup =>
  html`<dl class="figures">
    ${properties.map(
      (property) =>
        html`<div>
          <dt>${labelOf(property.name)}</dt>
          <dd>${cellValue(property)}</dd>
        </div>`,
    )}
  </dl>`;

/** Renders properties as names and values. */
export function propertyList(properties: readonly Property[]): Markup | false {
  if (areFigures(properties)) return figures(properties);
  const unset = properties.filter(isUnsetValue);
  const isListed = (property: Property): boolean => unset.length < UNSET_TOGETHER_MIN || !isUnsetValue(property);
  return (
    properties.length > 0 &&
    html`<dl>
      ${properties.filter(isListed).map(
        (property) =>
          html`<dt>${labelOf(property.name)}</dt>
            <dd>${shownValue(property)}</dd>`,
      )}
      ${
        unset.length >= UNSET_TOGETHER_MIN &&
        html`<dt>Not set</dt>
          <dd class="soft">${unset.map(({ name }) => inSentence(name)).join(', ')}</dd>`
      }
    </dl>`
  );
}

/** Renders the embedded documents of a relation; `above` is the document that embeds them. */
export function part(embedded: Embedded, parent: Document, naming: Naming, level = 2, of?: string): Markup {
  return embedded.isTimeline === true && embedded.documents.length > 0
    ? html`${heading(level, embedded.title ?? labelOf(embedded.rel))} ${timeline(embedded.documents, parent, naming)}`
    : section(embedded, naming, level, of);
}

/** Renders an embedded document without forms, which it has on its own page. */
const inner = (document: Document, naming: Naming, level: number, name: string): Markup =>
  html`${propertyList(document.properties)} ${linkRow(document, naming)}
  ${document.embedded.map((embedded) => part(embedded, document, naming, level, name))}`;

/** Renders several documents as a table. */
export function documentTable({ documents }: Embedded, naming: Naming, label: string, level: number): Markup {
  const more = (document: Document, { name, properties, hasPage }: RowDetails): Markup | false => {
    const hasMore = properties.length > 0 || document.embedded.some((below) => below.documents.length > 0);
    if (!hasMore) return false;
    return inner({ ...document, properties, links: hasPage ? [] : document.links }, naming, level + 1, name);
  };
  return table(documents, naming, { label, more });
}

/**
 * Renders one relation with its heading. `of` is the name of its parent, if others on the page may have the same
 * relation.
 */
function section(embedded: Embedded, naming: Naming, level: number, of?: string): Markup {
  const { rel, documents, single } = embedded;
  const [only] = documents;
  const title = embedded.title ?? labelOf(rel);
  if (only === undefined)
    return html`${heading(level, title)}
      <p class="soft">None</p>`;
  if (single === true) return html`${heading(level, title)} ${inner(only, naming, level + 1, title)}`;
  return html`${heading(level, title)}
  ${documentTable(embedded, naming, of === undefined ? title : `${title} of ${of}`, level)}`;
}
