/** Getting started, and the list of all addresses, as a page. */
import type { Chapter } from '#http/relation.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { templateOf, type RelationDocs } from '../relation-docs.ts';
import type { Setting } from '../setting.ts';
import { frame, listed, pathOf, relationLink, table } from './frame.ts';
import { guide } from './guide.ts';

/** An address with the relation that leads to it, if any. */
type AddressRow = { path: string; methods: string; title: string; rel: string | undefined };

const addressRows = (
  { relations, endpoints = [] }: Chapter,
  { byRel }: RelationDocs,
  { naming }: Setting,
): AddressRow[] => [
  ...relations.flatMap(({ rel, title }) =>
    (byRel.get(rel)?.addressDocs ?? []).map(({ path, methodDocs }): AddressRow => {
      const methods = methodDocs.map(({ method }) => method).join(', ');
      return { path: templateOf(path), methods, title, rel };
    }),
  ),
  ...endpoints.map(({ address, method, title, rel }): AddressRow => {
    return { path: address.replace(naming.baseUrl, ''), methods: method, title, rel };
  }),
];

/** Returns the relations of an address, with a title if it is only one. */
function relationsCell(addresses: readonly AddressRow[], { naming }: Setting): Markup {
  const links = listed(addresses.flatMap(({ rel }) => (rel === undefined ? [] : [relationLink(rel, naming)])));
  const [only, ...others] = addresses;
  return others.length > 0 ? links : html`${only?.title}<br />${links}`;
}

function chapterCard(chapter: Chapter, relationDocs: RelationDocs, setting: Setting): Markup {
  const byPath = Map.groupBy(addressRows(chapter, relationDocs, setting), ({ path }) => path);
  const rows = [...byPath].map(([path, addresses]) => [
    relationsCell(addresses, setting),
    addresses[0]?.methods ?? '',
    html`<code>${path}</code>`,
  ]);
  return html`<section class="card">
    <h2>${chapter.title}</h2>
    <p>${chapter.about}</p>
    ${rows.length > 0 && table(chapter.title, ['Relation', 'Methods', 'Address'], rows)}
  </section>`;
}

export function docsPage(relationDocs: RelationDocs, setting: Setting, view: View): string {
  return frame({
    title: 'Getting started',
    at: 'docs',
    naming: setting.naming,
    view,
    main: html`${guide(setting)}
      <h2>Addresses</h2>
      <p>
        All addresses begin with <code>${setting.naming.baseUrl}</code>; parameters are in braces. Machine-readable
        description: <a href="${pathOf('/openapi.json', setting.naming)}">OpenAPI 3.1</a>.
      </p>
      ${relationDocs.chapters.map((chapter) => chapterCard(chapter, relationDocs, setting))}`,
  });
}
