/** What every answer may hold, whatever it is about, and the reference itself. */
import { homeOf } from '#http/root.ts';
import { errorDocument } from '#http/errors.ts';
import { healthEndpoints } from '#http/health.ts';
import { optionsDocument } from '#http/options.ts';
import type { Chapter, Example } from '#http/relation.ts';
import type { Route } from '#http/route.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { Problem } from '#core/problem.ts';
import { docsDocument } from './document.ts';

const problem = new Problem(400, [
  { code: 'required', message: 'name is required', field: 'name' },
  { code: 'too_long', message: 'url must be at most 1000 characters', field: 'url' },
]);

/** Two faults, found at once. */
const errorsExample = (): Document => errorDocument(problem, 'id-9k2VvTq0bXw3');

const errorExample = (): Document => {
  const [error] = errorsExample().embedded[0]?.documents ?? [];
  if (error === undefined) throw new Error('An error document without errors');
  return error;
};

/** Of the first address of the table: home. */
const optionsExample =
  (routes: readonly Route[]): Example =>
  ({ baseUrl }) => {
    const home = routes.find((route) => route.kind === 'resource');
    if (home === undefined) throw new Error('There is no resource in the table of routes');
    return optionsDocument(home, homeOf(baseUrl), 'GET, HEAD, OPTIONS');
  };

export const referenceChapter = (routes: readonly Route[], { baseUrl }: Naming): Chapter => ({
  title: 'Everywhere',
  about: 'What every address can answer, and this documentation.',
  relations: [
    {
      rel: 'errors',
      title: 'Errors',
      about:
        'What is wrong with a request, in one shape for every address and format. All faults are told at once; of a 401 or 403 also error and error_description.',
      example: errorsExample,
    },
    {
      rel: 'error',
      title: 'One fault',
      about:
        'code is for programs and stays the same, message is for people, field names what is wrong. logref finds the line in the log of the operator.',
      example: errorExample,
    },
    {
      rel: 'options',
      title: 'What an address can do',
      about:
        'Ask any address with OPTIONS: its methods, and what each of them does. Neither version nor token are needed.',
      example: optionsExample(routes),
    },
    {
      rel: 'docs',
      title: 'Documentation',
      about:
        'How to begin and what there is, for people; for programs the way to every relation and to the OpenAPI description.',
      paths: ['/docs'],
      example: docsDocument,
    },
    {
      rel: 'openapi',
      title: 'The whole API as OpenAPI 3.1',
      about: 'Every address, what it takes and what it answers, for programs that make clients, tests or tools of it.',
    },
    {
      rel: 'relations',
      title: 'All relations',
      about: 'Every word by which a link may say what it leads to.',
      paths: ['/rels'],
    },
    {
      rel: 'relation',
      title: 'A relation',
      about: 'What one kind of link means, what can be done where it leads, and how that looks.',
      paths: ['/rels/:rel'],
    },
  ],
  endpoints: [
    {
      rel: 'openapi',
      address: `${baseUrl}/openapi.json`,
      method: 'GET',
      title: 'The whole API as OpenAPI 3.1',
      summary: 'Always JSON, whatever Accept asks for; with an ETag, so that it need not be sent again',
      access: 'Anyone',
      specification: 'OpenAPI 3.1',
      answers: { '200': 'The description', '304': 'You have it already' },
    },
    ...healthEndpoints(baseUrl),
  ],
});
