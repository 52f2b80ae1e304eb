/** The frame of the reference pages, and links to relations. */
import { rootOf } from '#http/root.ts';
import { type Naming, isRegistered, nameOf } from '#hypermedia/document.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { scriptElements, shell } from '#hypermedia/shell.ts';
import type { View } from '#hypermedia/view.ts';

export type CurrentPage = 'docs' | 'events' | 'receiving' | 'rels' | undefined;

/** Returns the path of a reference page: a relative link, so that the reader stays on the same host. */
export function pathOf(path: string, { baseUrl }: Naming): string {
  return rootOf(baseUrl) + path;
}

const entry = (path: string, title: string, isCurrent: boolean): Markup =>
  html`<a href="${path}" ${isCurrent && html`aria-current="page"`}>${title}</a>`;

export function frame(page: { title: string; main: Markup; at: CurrentPage; naming: Naming; view: View }): string {
  const { title, main, at, naming, view } = page;
  return shell({
    title,
    nav: view.nav,
    wide: true,
    scripts: scriptElements((path) => pathOf(path, naming)),
    main: html`<nav aria-label="Documentation">
        ${entry(pathOf('/docs', naming), 'Getting started', at === 'docs')}
        ${entry(pathOf('/docs/events', naming), 'Event types', at === 'events')}
        ${entry(pathOf('/docs/receiving', naming), 'Receiving webhooks', at === 'receiving')}
        ${entry(pathOf('/rels', naming), 'All relations', at === 'rels')}
        ${entry(pathOf('/openapi.json', naming), 'OpenAPI', false)}
      </nav>
      ${main}`,
  });
}

export function relationLink(rel: string, naming: Naming): Markup {
  return isRegistered(rel)
    ? html`<code>${rel}</code>`
    : html`<a href="${pathOf(`/rels/${rel}`, naming)}"><code>${nameOf(rel, naming)}</code></a>`;
}

/** Joins parts with commas. */
export function listed(parts: readonly Markup[]): Markup {
  return html`${parts.map((part, at) => html`${at > 0 && ', '}${part}`)}`;
}

type Cell = Markup | string;

const dataCell = (cell: Cell): Markup => html`<td>${cell}</td>`;
const nameCell = (cell: Cell): Markup => html`<th scope="row">${cell}</th>`;

/** Renders a table that scrolls by itself on a phone. `label` must be unique in the page. */
export function table(
  label: string,
  heads: readonly Cell[],
  rows: readonly (readonly Cell[])[],
  firstCell: (cell: Cell) => Markup = dataCell,
): Markup {
  return html`<section class="table" tabindex="0" aria-label="${label}">
    <table>
      <thead>
        <tr>
          ${heads.map((head) => (head === '' ? dataCell(head) : html`<th scope="col">${head}</th>`))}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (cells) =>
            html`<tr>
              ${cells.map((cell, at) => (at === 0 ? firstCell(cell) : dataCell(cell)))}
            </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}

/** Renders a table whose rows begin with a name, which does not wrap. */
export function namedTable(label: string, heads: readonly string[], rows: readonly (readonly Cell[])[]): Markup {
  return table(label, heads, rows, nameCell);
}
