/** How to begin, for people: what every request needs, what every answer has, and what there is. */
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import type { Explained, Explanations } from '../explained.ts';
import type { Setting } from '../setting.ts';
import { frame, pathOf, relationLink, table } from './frame.ts';
import { guide } from './guide.ts';

type Row = { methods: string; address: string };

const rowsOf = ({ places, endpoints }: Explained): Row[] => [
  ...places.map(({ address, doings }) => ({ address, methods: doings.map(({ method }) => method).join(', ') })),
  ...endpoints.map(({ address, method }) => ({ address, methods: method })),
];

const chapterCard = (title: string, about: string, relations: readonly Explained[], setting: Setting): Markup =>
  html`<section class="card">
    <h2>${title}</h2>
    <p>${about}</p>
    ${table(
      title,
      ['What', 'Methods', 'Address'],
      relations.flatMap((relation) =>
        rowsOf(relation).map(({ methods, address }) => [
          html`${relation.title}<br />${relationLink(relation.rel, setting.naming)}`,
          methods,
          html`<code>${address}</code>`,
        ]),
      ),
    )}
  </section>`;

export const docsPage = ({ chapters, byRel }: Explanations, setting: Setting, view: View): string => {
  const explained = (rels: readonly { rel: string }[]): Explained[] =>
    rels.flatMap(({ rel }) => byRel.get(rel) ?? []).filter((relation) => rowsOf(relation).length > 0);
  return frame({
    title: 'How to begin',
    at: 'docs',
    naming: setting.naming,
    view,
    main: html`${guide(setting)}
      <h2>What there is</h2>
      <p>
        The same for programs: <a href="${pathOf('/openapi.json', setting.naming)}">OpenAPI 3.1</a>. Parameters of an
        address stand in braces.
      </p>
      ${chapters.map(({ title, about, relations }) => {
        const told = explained(relations);
        return told.length > 0 && chapterCard(title, about, told, setting);
      })}`,
  });
};
