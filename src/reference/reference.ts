/**
 * The reference of the API: relations, getting started and OpenAPI, generated from the chapters of the modules and the
 * route table.
 */
import { acceptsEncoding, compress, gzipTag } from '#http/compression.ts';
import { isKnown, etagOf } from '#http/reply.ts';
import { errorDocument } from '#http/errors.ts';
import { defaultRepresentation } from '#http/negotiate.ts';
import { open, type Operation } from '#http/operation.ts';
import type { Chapter } from '#http/relation.ts';
import type { RawHandler, ProblemAnswer, Route } from '#http/route.ts';
import type { View } from '#hypermedia/view.ts';
import { isInPerson, type Principal } from '#core/principal.ts';
import { notFound } from '#core/problem.ts';
import { docsDocument, relationDocument, relationsDocument } from './document.ts';
import { eventTypeDocument, eventTypesDocument } from './event-types.ts';
import { describeRelations, type RelationDocs } from './relation-docs.ts';
import { openApi } from './openapi/openapi.ts';
import { docsPage } from './pages/docs-page.ts';
import { eventsPage } from './pages/events-page.ts';
import { indexPage } from './pages/index-page.ts';
import { receivingPage, TESTABLE_MAX, type Testable } from './pages/receiving-page.ts';
import { relationPage } from './pages/relation-page.ts';
import { receivingDocument } from './receiving.ts';
import { referenceChapter } from './relations.ts';
import type { Setting } from './setting.ts';

export type Reference = {
  docs: Operation;
  receiving: Operation;
  /** The packages that /docs/receiving names. */
  packageFile: RawHandler;
  eventTypes: Operation;
  eventType: Operation;
  relations: Operation;
  relation: Operation;
  openApi: RawHandler;
  /** Renders errors of the raw endpoints. */
  answerProblem: ProblemAnswer;
};

export type ReferenceDeps = {
  setting: Setting;
  packageFile: RawHandler;
  chapters: readonly Chapter[];
  /** Returns the newest webhooks of these stores that can send a test delivery. */
  testableOf: (stores: readonly number[], limit: number) => Promise<readonly Testable[]>;
  /** Called once, at the first request, because the table contains the reference itself. */
  routes: () => readonly Route[];
};

/**
 * Returns a function that computes its value at the first call and keeps it: the route table does not change while a
 * process runs.
 */
function lazy<T>(make: () => T): () => T {
  let computed: { value: T } | undefined;
  return () => (computed ??= { value: make() }).value;
}

/** Creates the operations of the documentation of webhooks. */
function webhookReference({
  setting,
  testableOf,
}: Pick<ReferenceDeps, 'setting' | 'testableOf'>): Pick<Reference, 'receiving' | 'eventTypes' | 'eventType'> {
  const { naming, eventTypes } = setting;
  /** Programs do not see the page. */
  const testableBy = async (principal: Principal | null): Promise<readonly Testable[]> =>
    principal === null || principal.stores === 'all' || !isInPerson(principal)
      ? []
      : // One more, so that the page says that there are others.
        testableOf(principal.stores, TESTABLE_MAX + 1);
  return {
    receiving: open({
      summary: 'How to verify deliveries, and when they are repeated',
      handle: async ({ principal }) => {
        const testable = await testableBy(principal);
        const page = (view: View): string => receivingPage(setting, view, testable);
        return { status: 200, document: receivingDocument(setting), page };
      },
    }),
    eventTypes: open({
      summary: 'All event types that a webhook can subscribe to',
      handle: async () => ({
        status: 200,
        document: eventTypesDocument(eventTypes, naming),
        page: (view) => eventsPage(eventTypes, setting, view),
      }),
    }),
    eventType: open({
      summary: 'When an event happens, and the schema of its body',
      handle: async ({ params }) => {
        const { resource_type: type, action } = params;
        const eventType = eventTypes.find(({ event }) => event === `${type}/${action}`);
        if (eventType === undefined) throw notFound('event type');
        const page = (view: View): string => eventsPage([eventType], setting, view);
        return { status: 200, document: eventTypeDocument(eventType, naming), page };
      },
    }),
  };
}

export function createReference({ setting, packageFile, chapters, testableOf, routes }: ReferenceDeps): Reference {
  const { naming } = setting;
  const relationDocs = lazy((): RelationDocs => {
    const table = routes();
    return describeRelations([...chapters, referenceChapter(table, setting)], table, naming);
  });
  const description = lazy(() => {
    const body = JSON.stringify(openApi(routes(), { relationDocs: relationDocs(), setting }));
    return { body, etag: etagOf({}, 'application/json', body), gzipped: lazy(() => compress(Buffer.from(body))) };
  });
  return {
    docs: open({
      summary: 'Getting started, and all addresses',
      handle: async () => ({
        status: 200,
        document: docsDocument(naming),
        page: (view) => docsPage(relationDocs(), setting, view),
      }),
    }),
    ...webhookReference({ setting, testableOf }),
    packageFile,
    relations: open({
      summary: 'All link relations',
      handle: async () => ({
        status: 200,
        document: relationsDocument(relationDocs(), naming),
        page: (view) => indexPage(relationDocs(), naming, view),
      }),
    }),
    relation: open({
      summary: 'The meaning of a relation, and the methods of its addresses',
      handle: async ({ params }) => {
        const relationDoc = relationDocs().byRel.get(params['rel'] ?? '');
        if (relationDoc === undefined) throw notFound('relation');
        const page = (view: View): string => relationPage(relationDoc, naming, view);
        return { status: 200, document: relationDocument(relationDoc, naming), page };
      },
    }),
    openApi: async ({ headers }) => {
      const { body, etag, gzipped } = description();
      const isGzip = acceptsEncoding(headers['accept-encoding'] ?? '', 'gzip');
      const tag = isGzip ? gzipTag(etag) : etag;
      const caching = { ETag: tag, 'Cache-Control': 'no-cache', Vary: 'Accept-Encoding' };
      if (isKnown(headers['if-none-match'], etag)) return { status: 304, headers: caching, body: '' };
      const json = { ...caching, 'Content-Type': 'application/json' };
      if (!isGzip) return { status: 200, headers: json, body };
      return { status: 200, headers: { ...json, 'Content-Encoding': 'gzip' }, body: await gzipped() };
    },
    answerProblem: (problem, logref) => ({
      status: problem.status,
      headers: { ...problem.headers, 'Content-Type': defaultRepresentation.mediaType },
      body: defaultRepresentation.format.render(errorDocument(problem, logref), naming),
    }),
  };
}
