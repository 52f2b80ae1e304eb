/** Every relation, chapter by chapter. */
import type { Naming } from '#hypermedia/document.ts';
import { html } from '#hypermedia/markup.ts';
import { nameOf } from '#hypermedia/relations.ts';
import type { View } from '#hypermedia/view.ts';
import type { Explanations } from '../explained.ts';
import { frame, relationLink, table } from './frame.ts';

export const indexPage = ({ chapters }: Explanations, naming: Naming, view: View): string =>
  frame({
    title: 'All relations',
    at: 'rels',
    naming,
    view,
    main: html`<div class="card">
        <h1>All relations</h1>
        <p>
          A link says by its relation what it leads to. What a representation calls
          <code>${nameOf('store', naming)}</code> is explained at <code>${naming.baseUrl}/rels/store</code>: follow
          names, and no address needs to be built.
        </p>
      </div>
      ${chapters.map(
        ({ title, about, relations }) =>
          html`<section class="card">
            <h2>${title}</h2>
            <p>${about}</p>
            ${table(
              title,
              ['Relation', 'What it is'],
              relations.map((relation) => [relationLink(relation.rel, naming), relation.title]),
            )}
          </section>`,
      )}`,
  });
