/** How to begin, for people: what every request needs, what every answer has, and what there is. */
import type { Chapter } from '#http/relation.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { templateOf, type Explanations } from '../explained.ts';
import type { Setting } from '../setting.ts';
import { frame, listed, pathOf, relationLink, table } from './frame.ts';
import { guide } from './guide.ts';

/** One way to an address: by a relation, or known from a protocol. */
type Way = { path: string; methods: string; title: string; rel: string | undefined };

const waysOf = ({ relations, endpoints = [] }: Chapter, { byRel }: Explanations, { naming }: Setting): Way[] => [
  ...relations.flatMap(({ rel, title }) =>
    (byRel.get(rel)?.places ?? []).map(({ path, doings }): Way => {
      const methods = doings.map(({ method }) => method).join(', ');
      return { path: templateOf(path), methods, title, rel };
    }),
  ),
  ...endpoints.map(({ address, method, title, rel }): Way => {
    return { path: address.replace(naming.baseUrl, ''), methods: method, title, rel };
  }),
];

/** What many relations lead to has no title of its own. */
const named = (ways: readonly Way[], { naming }: Setting): Markup => {
  const links = listed(ways.flatMap(({ rel }) => (rel === undefined ? [] : [relationLink(rel, naming)])));
  const [only, ...others] = ways;
  return others.length > 0 ? links : html`${only?.title}<br />${links}`;
};

const chapterCard = (chapter: Chapter, explanations: Explanations, setting: Setting): Markup => {
  const byPath = Map.groupBy(waysOf(chapter, explanations, setting), ({ path }) => path);
  const rows = [...byPath].map(([path, ways]) => [
    named(ways, setting),
    ways[0]?.methods ?? '',
    html`<code>${path}</code>`,
  ]);
  return html`<section class="card">
    <h2>${chapter.title}</h2>
    <p>${chapter.about}</p>
    ${rows.length > 0 && table(chapter.title, ['What', 'Methods', 'Address'], rows)}
  </section>`;
};

export const docsPage = (explanations: Explanations, setting: Setting, view: View): string =>
  frame({
    title: 'How to begin',
    at: 'docs',
    naming: setting.naming,
    view,
    main: html`${guide(setting)}
      <h2>What there is</h2>
      <p>
        Addresses begin with <code>${setting.naming.baseUrl}</code>, their parameters stand in braces. The same for
        programs: <a href="${pathOf('/openapi.json', setting.naming)}">OpenAPI 3.1</a>.
      </p>
      ${explanations.chapters.map((chapter) => chapterCard(chapter, explanations, setting))}`,
  });
