/**
 * The reference of the API: the documents of docs/, and relations, event types and OpenAPI, generated from the chapters of the
 * modules and the route table.
 */
import { Type } from 'typebox';
import { acceptsEncoding, compress, etagOf, gzipTag, isKnown } from '#http/reply.ts';
import { defaultRepresentation } from '#hypermedia/render.ts';
import { errorDocument } from '#http/errors.ts';
import { open } from '#http/operation.ts';
import type { Chapter, EventType, Example, Relation } from '#http/relation.ts';
import type { ProblemAnswer, RawHandler, Route } from '#http/route.ts';
import { homeOf } from '#http/root.ts';
import { constant, render } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { isInPerson, type Principal } from '#core/principal.ts';
import { notFound, Problem } from '#core/problem.ts';
import { healthEndpoints } from '#http/fixed-addresses.ts';
import { optionsDocument } from '#http/answers.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { docsDocument, docsPageDocument, relationDocument, relationsDocument } from './reference-document.ts';
import { createMarkdown, documentNames, INDEX, renderDocument, type Page } from './documents.ts';
import {
  eventCatalogue,
  eventTypeDocument,
  eventTypePage,
  eventTypesDocument,
  eventTypeSummary,
  programsPart,
  receivingDocument,
  TEST_PLACE,
  testPart,
  TESTABLE_MAX,
  type Testable,
} from './event-catalogue.ts';
import { describeRelations, type RelationDocs, type MethodDoc, type RelationDoc } from './relation-docs.ts';
import { openApi } from './openapi/openapi.ts';
import { frame, type CurrentPage } from './page-frame.ts';
import { addressList, indexPage, relationPage } from './relation-pages.ts';
import type { Setting } from './setting.ts';

const exampleProblem = new Problem(400, [
  { code: 'required', message: 'name is required', field: 'name' },
  { code: 'too_long', message: 'url must be at most 1000 characters', field: 'url' },
]);

const LOGREF = 'id-9k2VvTq0bXw3';

/** An example with two faults. */
const errorsExample = (): Document => errorDocument(exampleProblem, LOGREF);

/** The errors of a request without a valid token. */
const unauthorizedExample = (): Document =>
  errorDocument(new Problem(401, [{ code: 'invalid_token', message: 'The token is invalid or expired' }]), LOGREF);

const errorOf = (errors: () => Document) => (): Document => {
  const [error] = errors().embedded[0]?.documents ?? [];
  if (error === undefined) throw new Error('An error document without errors');
  return error;
};

/** The OPTIONS document of the first route: home. */
const optionsExample =
  (routes: readonly Route[]): Example =>
  ({ baseUrl }) => {
    const home = routes.find((route) => route.kind === 'resource');
    if (home === undefined) throw new Error('The route table contains no resource');
    return optionsDocument(home, homeOf(baseUrl), 'GET, HEAD, OPTIONS');
  };

const eventTypeExample =
  ([eventType]: readonly EventType[], documentOf: (one: EventType, naming: Naming) => Document): Example =>
  (naming) => {
    if (eventType === undefined) throw new Error('The event catalogue is empty');
    return documentOf(eventType, naming);
  };

const webhookRelations = (setting: Setting): Relation[] => [
  {
    rel: 'receiving',
    title: 'Receiving webhooks',
    about:
      'How to receive deliveries of this server: the prefix of its headers, its retries, and programs in six languages that verify a delivery. The page also explains order, duplicates, key rotation and encryption.',
    paths: ['/docs/receiving'],
    example: () => receivingDocument(setting),
  },
  {
    rel: 'event_types',
    title: 'Event types',
    about:
      'The event catalogue: every event that a webhook can subscribe to, with the time when it happens, its publisher, the relations that zoom can embed, and the first version with it.',
    paths: ['/docs/events'],
    example: (naming) => eventTypesDocument(setting.eventTypes, naming),
  },
  {
    rel: 'event_type',
    title: 'An event type',
    about:
      'One event, with the JSON Schema of the body that webhooks with the format json receive, and examples without and with zoom. Types are given only where they are guaranteed, and a query with fields leaves out properties.',
    paths: ['/docs/events/:resource_type/:action'],
    example: eventTypeExample(setting.eventTypes, eventTypeDocument),
    variants: [eventTypeExample(setting.eventTypes, eventTypeSummary)],
  },
];

const homeDoc: MethodDoc = {
  method: 'GET',
  title: 'The API home',
  summary: 'The entry point',
  access: 'anyone',
  scopes: [],
  fields: [],
  modifiers: [],
  properties: {},
  isOpen: false,
  selects: [],
};

/** Returns the documentation of a relation that leads to home. */
function relationDocExample(rel: string, { baseUrl }: Naming): RelationDoc {
  return {
    rel,
    title: 'The API home',
    about: 'The entry point.',
    chapter: 'Everywhere',
    addressDocs: [{ path: '/', address: homeOf(baseUrl), methodDocs: [homeDoc] }],
    endpoints: [],
    example: errorsExample(),
    variants: [],
    results: undefined,
  };
}

const relationsExample: Example = (naming) => {
  const all = ['home', 'stores'].map((rel) => [rel, relationDocExample(rel, naming)] as const);
  return relationsDocument({ chapters: [], byRel: new Map(all) }, naming);
};

const referenceRelations = (routes: readonly Route[], setting: Setting): Relation[] => [
  {
    rel: 'errors',
    title: 'Errors',
    about:
      'The faults of a request, with the same structure for every address and format. All faults are reported at once; a 401 or 403 also has error and error_description.',
    example: errorsExample,
    variants: [unauthorizedExample],
  },
  {
    rel: 'error',
    title: 'One fault',
    about:
      "code is stable and for programs, message is for people, field is the name of the member or parameter at fault. logref identifies the line in the operator's log.",
    example: errorOf(errorsExample),
    variants: [errorOf(unauthorizedExample)],
  },
  {
    rel: 'options',
    title: 'Methods of an address',
    about:
      'OPTIONS of any address: its methods, and what each of them does. Neither version header nor token is required.',
    example: optionsExample(routes),
  },
  {
    rel: 'docs',
    title: 'Documentation',
    about:
      'Getting started, all guides and all addresses, for people; for programs links to them, to all relations and to the OpenAPI description.',
    paths: ['/docs'],
    example: docsDocument,
  },
  {
    rel: 'docs_page',
    title: 'A page of the documentation',
    about: 'One subject, for people, with the names and settings of this server. Programs get its title.',
    paths: ['/docs/:page'],
    example: (naming) => docsPageDocument('oauth', naming),
  },
  ...webhookRelations(setting),
  {
    rel: 'openapi',
    title: 'The whole API as OpenAPI 3.1',
    about: 'Every address with its parameters and responses, to generate clients, tests or tools.',
  },
  {
    rel: 'relations',
    title: 'All relations',
    about: 'All relations that a link may have.',
    paths: ['/rels'],
    example: relationsExample,
  },
  {
    rel: 'relation',
    title: 'A relation',
    about: 'The meaning of one relation, the methods of its addresses, and examples.',
    paths: ['/rels/:rel'],
    example: (naming) => relationDocument(relationDocExample('home', naming), naming),
  },
];

export function referenceChapter(routes: readonly Route[], setting: Setting): Chapter {
  const { baseUrl } = setting.naming;
  return {
    title: 'Everywhere',
    about: 'Responses of every address, and this documentation.',
    relations: referenceRelations(routes, setting),
    endpoints: [
      {
        rel: 'openapi',
        address: `${baseUrl}/openapi.json`,
        method: 'GET',
        title: 'The whole API as OpenAPI 3.1',
        summary: 'Always JSON, whatever Accept requests; with an ETag for conditional requests',
        access: 'Anyone',
        specification: 'OpenAPI 3.1',
        returns: Type.Object({ openapi: Type.Literal('3.1.0'), info: Type.Object({}), paths: Type.Object({}) }),
        answers: { '200': 'The description', '304': 'Not modified' },
      },
      ...healthEndpoints(baseUrl),
    ],
  };
}

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

/** Returns a function that returns a page, and renders its document at the first request. */
function documentPages(setting: Setting, relationDocs: () => RelationDocs) {
  const rendered = new Map<string, Page>();
  const { naming, eventTypes } = setting;
  const context = lazy(() => ({
    setting,
    hasRelation: (rel: string) => relationDocs().byRel.has(rel),
    parts: {
      addresses: addressList(relationDocs(), naming),
      catalogue: eventCatalogue(eventTypes, naming),
      programs: programsPart(setting),
      // Each reader has other webhooks.
      test: constant(TEST_PLACE),
    },
  }));
  return (name: string, at?: CurrentPage) =>
    (view: View): string => {
      const { title, content: main } = rendered.getOrInsertComputed(name, () => renderDocument(name, context()));
      return frame({ title, at, naming, view, main });
    };
}

/** Creates the operations whose pages are documents, and that of an event type. */
function documentOperations(
  { setting, testableOf }: Pick<ReferenceDeps, 'setting' | 'testableOf'>,
  show: ReturnType<typeof documentPages>,
) {
  const { naming, eventTypes } = setting;
  /** Programs do not see the page. */
  const testableBy = async (principal: Principal | null): Promise<readonly Testable[]> =>
    principal === null || principal.stores === 'all' || !isInPerson(principal)
      ? []
      : // One more, so that the page says that there are others.
        testableOf(principal.stores, TESTABLE_MAX + 1);
  return {
    docs: open({
      summary: 'Getting started, and all addresses',
      handle: async () => ({ status: 200, document: docsDocument(naming), page: show(INDEX, 'docs') }),
    }),
    docsPage: open({
      summary: 'One subject of the documentation',
      handle: async ({ params }) => {
        const { page: name = '' } = params;
        if (!documentNames.includes(name)) throw notFound('page');
        return { status: 200, document: docsPageDocument(name, naming), page: show(name) };
      },
    }),
    receiving: open({
      summary: 'How to verify deliveries, and when they are repeated',
      handle: async ({ principal }) => {
        const testable = await testableBy(principal);
        const page = (view: View): string =>
          show('receiving', 'receiving')(view).replace(TEST_PLACE, () => render(testPart(setting, view, testable)));
        return { status: 200, document: receivingDocument(setting), page };
      },
    }),
    eventTypes: open({
      summary: 'All event types that a webhook can subscribe to',
      handle: async () => ({
        status: 200,
        document: eventTypesDocument(eventTypes, naming),
        page: show('events', 'events'),
      }),
    }),
    eventType: open({
      summary: 'When an event happens, and the schema of its body',
      handle: async ({ params }) => {
        const { resource_type: type, action } = params;
        const eventType = eventTypes.find(({ event }) => event === `${type}/${action}`);
        if (eventType === undefined) throw notFound('event type');
        const page = (view: View): string => eventTypePage(eventType, naming, view);
        return { status: 200, document: eventTypeDocument(eventType, naming), page };
      },
    }),
  };
}

/** Creates the operations. `answerProblem` renders the errors of raw endpoints. */
export function createReference({ setting, packageFile, chapters, testableOf, routes }: ReferenceDeps) {
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
    ...documentOperations({ setting, testableOf }, documentPages(setting, relationDocs)),
    packageFile,
    markdown: createMarkdown(setting),
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
    openApi: (async ({ headers }) => {
      const { body, etag, gzipped } = description();
      const isGzip = acceptsEncoding(headers['accept-encoding'] ?? '', 'gzip');
      const tag = isGzip ? gzipTag(etag) : etag;
      const caching = { ETag: tag, 'Cache-Control': 'no-cache', Vary: 'Accept-Encoding' };
      if (isKnown(headers['if-none-match'], etag)) return { status: 304, headers: caching, body: '' };
      const json = { ...caching, 'Content-Type': 'application/json' };
      if (!isGzip) return { status: 200, headers: json, body };
      return { status: 200, headers: { ...json, 'Content-Encoding': 'gzip' }, body: await gzipped() };
    }) satisfies RawHandler,
    answerProblem: ((problem, logref) => ({
      status: problem.status,
      headers: { ...problem.headers, 'Content-Type': defaultRepresentation.mediaType },
      body: defaultRepresentation.format.render(errorDocument(problem, logref), naming),
    })) satisfies ProblemAnswer,
  };
}

export type Reference = ReturnType<typeof createReference>;
