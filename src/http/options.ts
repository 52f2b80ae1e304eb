/** The document that OPTIONS returns. */
import { json, type Document } from '#hypermedia/document.ts';
import type { Route } from './route.ts';

/** Raw endpoints have no summaries of their own: a page explains itself, and the protocol specifies an endpoint. */
const PAGE = { GET: 'Shows the page', POST: 'Submits the form of the page' } as const;
const ENDPOINT = {
  GET: 'A read of the protocol that /openapi.json names',
  POST: 'A request of the protocol that /openapi.json names',
  PUT: 'A replacement of the protocol that /openapi.json names',
  DELETE: 'A deletion of the protocol that /openapi.json names',
} as const;

function summariesOf(route: Route): Record<string, string> {
  if (route.kind === 'raw') {
    const summaries = route.sameOriginPosts ? PAGE : ENDPOINT;
    return Object.fromEntries(Object.entries(summaries).filter(([method]) => Object.hasOwn(route.operations, method)));
  }
  return Object.fromEntries(Object.entries(route.operations).map(([method, { summary }]) => [method, summary]));
}

export function optionsDocument(route: Route, address: string, allow: string): Document {
  return {
    name: 'options',
    links: [{ rel: 'self', href: address, title: 'Methods of this address' }],
    embedded: [],
    properties: [
      json('allow', allow.split(', ')),
      json('methods', {
        ...summariesOf(route),
        ...(route.operations.GET === undefined ? {} : { HEAD: 'The headers of GET, without its body' }),
        OPTIONS: 'This document',
      }),
    ],
  };
}
