/** What OPTIONS tells of an address. */
import { json, type Document } from '#hypermedia/document.ts';
import type { Resource } from './route.ts';

export const optionsDocument = (route: Pick<Resource, 'operations'>, address: string, allow: string): Document => ({
  name: 'options',
  links: [{ rel: 'self', href: address, title: 'What can be done here' }],
  embedded: [],
  properties: [
    json('allow', allow.split(', ')),
    json('methods', {
      ...Object.fromEntries(Object.entries(route.operations).map(([method, operation]) => [method, operation.summary])),
      ...(route.operations.GET === undefined ? {} : { HEAD: 'The headers of GET, without its body' }),
      OPTIONS: 'This document',
    }),
  ],
});
