/** The page of all relations, by chapter. */
import { type Naming, nameOf } from '#hypermedia/document.ts';
import { html } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import type { RelationDocs } from '../relation-docs.ts';
import { frame, relationLink, table } from './page-frame.ts';

export function indexPage({ chapters }: RelationDocs, naming: Naming, view: View): string {
  return frame({
    title: 'All relations',
    at: 'rels',
    naming,
    view,
    main: html`<div class="card">
        <h1>All relations</h1>
        <p>
          The relation of a link describes its target. <code>${nameOf('store', naming)}</code> in a representation is
          documented at <code>${naming.baseUrl}/rels/store</code>: follow links by relation, without building addresses.
        </p>
      </div>
      ${chapters.map(
        ({ title, about, relations }) =>
          html`<section class="card">
            <h2>${title}</h2>
            <p>${about}</p>
            ${table(
              title,
              ['Relation', 'Meaning'],
              relations.map((relation) => [relationLink(relation.rel, naming), relation.title]),
            )}
          </section>`,
      )}`,
  });
}
