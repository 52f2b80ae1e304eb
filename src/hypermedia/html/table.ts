/** Renders documents as a table. On a phone each row is a card, with the heading of its column before each value. */
import type { Document, Kind, Naming, Property } from '../document.ts';
import { isBlank } from '#core/text.ts';
import { html, type Markup } from '../markup.ts';
import { columnsOf } from './columns.ts';
import { anchor, hrefOf, linkTo } from './links.ts';
import { cellText, cellValue, fitsCell, isUnset } from './values.ts';
import { labelOf } from './words.ts';

type Column = { name: string; kind: Kind };

const isNumeric = ({ kind }: Column): boolean => kind === 'number' || kind === 'count' || kind === 'money';

const propertyOf = ({ properties }: Document, name: string): Property | undefined =>
  properties.find((property) => property.name === name);

function selfOf(document: Document, naming: Naming): string | undefined {
  const self = linkTo(document, 'self');
  return self === undefined ? undefined : hrefOf(self.href, naming);
}

const textOf = (property: Property | undefined): string =>
  property === undefined || isUnset(property.value) ? '' : cellText(property.value);

/** Returns whether the title contains more than the id. */
const isTitled = (document: Document): boolean =>
  !isBlank(document.title ?? '') && document.title?.endsWith(textOf(propertyOf(document, 'id'))) === false;

/** Returns the name of a document in its row. */
function rowName(document: Document, property: Property | undefined): string {
  const title = document.title ?? '';
  const isNumbered = property?.name === 'id' && isTitled(document);
  const candidates = isNumbered ? [title] : [textOf(property), title];
  const names = [...candidates, textOf(propertyOf(document, 'id'))];
  return names.find((name) => !isBlank(name)) ?? linkTo(document, 'self')?.title ?? labelOf(document.name);
}

function headCell(document: Document, column: Column | undefined, self: string | undefined): Markup {
  const property = column && propertyOf(document, column.name);
  if (self !== undefined) return html`<th scope="row">${anchor(self, rowName(document, property))}</th>`;
  return html`<th scope="row">${property === undefined ? rowName(document, undefined) : cellValue(property)}</th>`;
}

/** Returns the heading of the first column. */
function headLabel(documents: readonly Document[], head: Column | undefined): string {
  if (head === undefined) return 'Name';
  const [first] = documents;
  const hasTitles =
    head.name === 'id' && documents.every((document) => isTitled(document) && linkTo(document, 'self') !== undefined);
  return hasTitles && first !== undefined ? (first.called ?? labelOf(first.name)) : labelOf(head.name);
}

function cell(document: Document, column: Column): Markup {
  const property = propertyOf(document, column.name);
  const value = property === undefined ? null : cellValue(property);
  const label = labelOf(column.name);
  return isNumeric(column)
    ? html`<td class="number" data-label="${label}">${value}</td>`
    : html`<td data-label="${label}">${value}</td>`;
}

/** Properties that the row does not show, and that no page of their own shows. */
export type RowDetails = { name: string; properties: readonly Property[]; hasPage: boolean };

function rowDetails(document: Document, columns: readonly Column[], hasPage: boolean): RowDetails {
  const [head] = columns;
  const name = rowName(document, head && propertyOf(document, head.name));
  if (hasPage) return { name, properties: [], hasPage };
  const shown = new Set(columns.map((column) => column.name));
  const properties = document.properties.filter((property) => !shown.has(property.name) || !fitsCell(property));
  return { name, properties, hasPage };
}

/**
 * Renders the table. `label` names the region for screen readers. `more` renders folded details below a row; false
 * without any.
 */
export function table(
  documents: readonly Document[],
  naming: Naming,
  { label, more }: { label: string; more: (document: Document, details: RowDetails) => Markup | false },
): Markup {
  const columns = columnsOf(documents);
  const [head, ...others] = columns;
  const row = (document: Document): Markup => {
    const self = selfOf(document, naming);
    const details = rowDetails(document, columns, self !== undefined);
    const detailsMarkup = more(document, details);
    const cells = html`${headCell(document, head, self)}${others.map((column) => cell(document, column))}`;
    if (detailsMarkup === false)
      return html`<tr>
        ${cells}
      </tr>`;
    return html`<tr class="parted">
        ${cells}
      </tr>
      <tr>
        <td colspan="${columns.length || 1}">
          <details class="fold">
            <summary>Details<span class="unseen"> of ${details.name}</span></summary>
            ${detailsMarkup}
          </details>
        </td>
      </tr>`;
  };
  return html`<section class="table cards" tabindex="0" aria-label="${label}">
    <table>
      <thead>
        <tr>
          <th scope="col">${headLabel(documents, head)}</th>
          ${others.map((column) =>
            isNumeric(column)
              ? html`<th scope="col" class="number">${labelOf(column.name)}</th>`
              : html`<th scope="col">${labelOf(column.name)}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${documents.map(row)}
      </tbody>
    </table>
  </section>`;
}
