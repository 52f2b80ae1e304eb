/** What a document is: its properties, what is embedded in it, and in that again. */
import type { Document, Embedded, Naming, Property } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { harmless } from './harmless.ts';
import { linkRow } from './links.ts';
import { table, type Rest } from './table.ts';
import { shownValue } from './values.ts';
import { labelOf } from './words.ts';

/** HTML has no deeper headings. */
const LEVEL_MAX = 6;

const heading = (level: number, text: string): Markup => {
  const words = harmless(text);
  if (level <= 2) return html`<h2>${words}</h2>`;
  if (level === 3) return html`<h3>${words}</h3>`;
  if (level === 4) return html`<h4>${words}</h4>`;
  return level < LEVEL_MAX ? html`<h5>${words}</h5>` : html`<h6>${words}</h6>`;
};

/** Names and values. */
export const propertyList = (properties: readonly Property[]): Markup | false =>
  properties.length > 0 &&
  html`<dl>
    ${properties.map(
      (property) =>
        html`<dt>${harmless(labelOf(property.name))}</dt>
          <dd>${shownValue(property)}</dd>`,
    )}
  </dl>`;

/** One that stands inside of another: without forms, which it has on a page of its own. */
const inner = (document: Document, naming: Naming, level: number, name: string): Markup =>
  html`${propertyList(document.properties)} ${linkRow(document, naming)}
  ${document.embedded.map((embedded) => section(embedded, naming, level, name))}`;

/** Several as a table, one as a list of its properties. */
export const several = ({ documents }: Embedded, naming: Naming, label: string, level: number): Markup => {
  const more = (document: Document, { name, properties, hasPage }: Rest): Markup | false => {
    if (properties.length === 0 && document.embedded.length === 0) return false;
    return inner({ ...document, properties, links: hasPage ? [] : document.links }, naming, level + 1, name);
  };
  return table(documents, naming, { label, more });
};

/** One relation with its heading. `of` is what has it, where others on the page may have such a one, too. */
export const section = (embedded: Embedded, naming: Naming, level: number, of?: string): Markup => {
  const { rel, documents, single } = embedded;
  const [only] = documents;
  const title = labelOf(rel);
  if (only === undefined)
    return html`${heading(level, title)}
      <p class="soft">None</p>`;
  if (single === true) return html`${heading(level, title)} ${inner(only, naming, level + 1, title)}`;
  return html`${heading(level, title)}
  ${several(embedded, naming, of === undefined ? title : `${title} of ${of}`, level)}`;
};
