/** Several documents as a table, which scrolls by itself where it is too wide. */
import type { Document, Kind, Naming, Property } from '../document.ts';
import { isBlank } from '#core/blank.ts';
import { html, type Markup } from '../markup.ts';
import { columnsOf } from './columns.ts';
import { harmless } from './harmless.ts';
import { anchor, hrefOf, linkTo } from './links.ts';
import { cellText, cellValue, fitsCell, isUnset } from './values.ts';
import { labelOf } from './words.ts';

type Column = { name: string; kind: Kind };

const isNumeric = ({ kind }: Column): boolean => kind === 'number' || kind === 'count' || kind === 'money';

const propertyOf = ({ properties }: Document, name: string): Property | undefined =>
  properties.find((property) => property.name === name);

const selfOf = (document: Document, naming: Naming): string | undefined => {
  const self = linkTo(document, 'self');
  return self === undefined ? undefined : hrefOf(self.href, naming);
};

const textOf = (property: Property | undefined): string =>
  property === undefined || isUnset(property.value) ? '' : cellText(property.value);

/** Whether its title says more than its number, which is often part of it. */
const isTitled = (document: Document): boolean =>
  !isBlank(document.title ?? '') && document.title?.endsWith(textOf(propertyOf(document, 'id'))) === false;

/** What a document is called where it is one of many. */
const calledBy = (document: Document, property: Property | undefined): string => {
  const title = harmless(document.title ?? '');
  const isNumbered = property?.name === 'id' && isTitled(document);
  const called = isNumbered ? [title] : [textOf(property), title];
  const names = [...called, textOf(propertyOf(document, 'id'))];
  return names.find((name) => !isBlank(name)) ?? harmless(linkTo(document, 'self')?.title ?? labelOf(document.name));
};

const headCell = (document: Document, column: Column | undefined, self: string | undefined): Markup => {
  const property = column && propertyOf(document, column.name);
  if (self !== undefined) return html`<th scope="row">${anchor(self, calledBy(document, property))}</th>`;
  return html`<th scope="row">${property === undefined ? calledBy(document, undefined) : cellValue(property)}</th>`;
};

/** The word above the first cells. */
const headWord = (documents: readonly Document[], head: Column | undefined): string => {
  if (head === undefined) return 'Name';
  const [first] = documents;
  const isOfTitles = head.name === 'id' && documents.every((one) => isTitled(one) && linkTo(one, 'self') !== undefined);
  return harmless(isOfTitles && first !== undefined ? (first.called ?? labelOf(first.name)) : labelOf(head.name));
};

const cell = (document: Document, column: Column): Markup => {
  const property = propertyOf(document, column.name);
  const value = property === undefined ? null : cellValue(property);
  return isNumeric(column) ? html`<td class="number">${value}</td>` : html`<td>${value}</td>`;
};

/** What a document has beyond its row, of which it has to be told here: it has no page of its own that tells it. */
export type Rest = { name: string; properties: readonly Property[]; hasPage: boolean };

const restOf = (document: Document, columns: readonly Column[], hasPage: boolean): Rest => {
  const [head] = columns;
  const name = calledBy(document, head && propertyOf(document, head.name));
  if (hasPage) return { name, properties: [], hasPage };
  const shown = new Set(columns.map((column) => column.name));
  const properties = document.properties.filter((property) => !shown.has(property.name) || !fitsCell(property));
  return { name, properties, hasPage };
};

/**
 * `label` names the region for those who do not see it. `more` says what stands below a document's row, folded up; false
 * where there is nothing more to say.
 */
export const table = (
  documents: readonly Document[],
  naming: Naming,
  { label, more }: { label: string; more: (document: Document, rest: Rest) => Markup | false },
): Markup => {
  const columns = columnsOf(documents);
  const [head, ...others] = columns;
  const row = (document: Document): Markup => {
    const self = selfOf(document, naming);
    const rest = restOf(document, columns, self !== undefined);
    const below = more(document, rest);
    const cells = html`${headCell(document, head, self)}${others.map((column) => cell(document, column))}`;
    if (below === false)
      return html`<tr>
        ${cells}
      </tr>`;
    return html`<tr class="parted">
        ${cells}
      </tr>
      <tr>
        <td colspan="${columns.length || 1}">
          <details class="fold">
            <summary>More of ${rest.name}</summary>
            ${below}
          </details>
        </td>
      </tr>`;
  };
  return html`<section class="table" tabindex="0" aria-label="${harmless(label)}">
    <table>
      <thead>
        <tr>
          <th scope="col">${headWord(documents, head)}</th>
          ${others.map((column) =>
            isNumeric(column)
              ? html`<th scope="col" class="number">${harmless(labelOf(column.name))}</th>`
              : html`<th scope="col">${harmless(labelOf(column.name))}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${documents.map(row)}
      </tbody>
    </table>
  </section>`;
};
