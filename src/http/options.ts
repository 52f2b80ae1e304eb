/** What OPTIONS tells of an address. */
import { json, type Document } from '#hypermedia/document.ts';
import type { Route } from './route.ts';

/** Doors have no summaries of their own: a page explains itself, and an endpoint is explained by its protocol. */
const PAGE = { GET: 'The page', POST: 'Submits the form of the page' } as const;
const ENDPOINT = { GET: 'Reads it', POST: 'A request of the protocol that /openapi.json names' } as const;

const summariesOf = (route: Route): Record<string, string> => {
  if (route.kind === 'raw') {
    const summaries = route.sameOriginPosts ? PAGE : ENDPOINT;
    return Object.fromEntries(Object.entries(summaries).filter(([method]) => Object.hasOwn(route.operations, method)));
  }
  return Object.fromEntries(Object.entries(route.operations).map(([method, { summary }]) => [method, summary]));
};

export const optionsDocument = (route: Route, address: string, allow: string): Document => ({
  name: 'options',
  links: [{ rel: 'self', href: address, title: 'What can be done here' }],
  embedded: [],
  properties: [
    json('allow', allow.split(', ')),
    json('methods', {
      ...summariesOf(route),
      ...(route.operations.GET === undefined ? {} : { HEAD: 'The headers of GET, without its body' }),
      OPTIONS: 'This document',
    }),
  ],
});
