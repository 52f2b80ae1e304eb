/** What the API says of itself: every relation, how to begin, and OpenAPI. Made from what the rooms tell and the table of routes. */
import { isKnown, etagOf } from '#http/conditional.ts';
import { errorDocument } from '#http/errors.ts';
import { defaultRepresentation } from '#http/negotiate.ts';
import { open, type Operation } from '#http/operation.ts';
import type { Chapter } from '#http/relation.ts';
import type { RawHandler, ProblemAnswer, Route } from '#http/route.ts';
import type { View } from '#hypermedia/view.ts';
import { notFound } from '#core/problem.ts';
import { docsDocument, relationDocument, relationsDocument } from './document.ts';
import { explain, type Explanations } from './explained.ts';
import { openApi } from './openapi/openapi.ts';
import { docsPage } from './pages/docs-page.ts';
import { indexPage } from './pages/index-page.ts';
import { relationPage } from './pages/relation-page.ts';
import { referenceChapter } from './relations.ts';
import type { Setting } from './setting.ts';

export type Reference = {
  docs: Operation;
  relations: Operation;
  relation: Operation;
  openApi: RawHandler;
  /** How the door of `openApi` tells what it could not do. */
  answerProblem: ProblemAnswer;
};

export type ReferenceDeps = {
  setting: Setting;
  chapters: readonly Chapter[];
  /** Called once, at the first request: the table holds this room, too. */
  routes: () => readonly Route[];
};

/** Made at the first call and kept: the table does not change while a process runs. */
const once = <Made>(make: () => Made): (() => Made) => {
  let made: { value: Made } | undefined;
  return () => (made ??= { value: make() }).value;
};

export const createReference = ({ setting, chapters, routes }: ReferenceDeps): Reference => {
  const { naming } = setting;
  const explanations = once((): Explanations => {
    const table = routes();
    return explain([...chapters, referenceChapter(table, naming)], table, naming);
  });
  const description = once(() => {
    const body = JSON.stringify(openApi(routes(), { explanations: explanations(), setting }));
    return { body, etag: etagOf({}, 'application/json', body) };
  });
  return {
    docs: open({
      summary: 'How to begin, and what there is',
      handle: async () => ({
        status: 200,
        document: docsDocument(naming),
        page: (view) => docsPage(explanations(), setting, view),
      }),
    }),
    relations: open({
      summary: 'Every relation that a link may have',
      handle: async () => ({
        status: 200,
        document: relationsDocument(explanations(), naming),
        page: (view) => indexPage(explanations(), naming, view),
      }),
    }),
    relation: open({
      summary: 'What a relation means, and what can be done where it leads',
      handle: async ({ params }) => {
        const explained = explanations().byRel.get(params['rel'] ?? '');
        if (explained === undefined) throw notFound('relation');
        const page = (view: View): string => relationPage(explained, naming, view);
        return { status: 200, document: relationDocument(explained, naming), page };
      },
    }),
    openApi: async ({ headers }) => {
      const { body, etag } = description();
      const caching = { ETag: etag, 'Cache-Control': 'no-cache' };
      if (isKnown(headers['if-none-match'], etag)) return { status: 304, headers: caching, body: '' };
      return { status: 200, headers: { ...caching, 'Content-Type': 'application/json' }, body };
    },
    answerProblem: (problem, logref) => ({
      status: problem.status,
      headers: { ...problem.headers, 'Content-Type': defaultRepresentation.mediaType },
      body: defaultRepresentation.format.render(errorDocument(problem, logref), naming),
    }),
  };
};
