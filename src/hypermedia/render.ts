/** The formats there are. A new one is a line here and a file beside it. */
import type { Document, Naming } from './document.ts';
import { renderHal } from './hal.ts';

export type Format = {
  mediaTypes: readonly [string, ...string[]];
  render: (document: Document, naming: Naming) => string;
};

/** The first one is the default, also for Accept: *\/*. */
export const formats: readonly [Format, ...Format[]] = [
  { mediaTypes: ['application/hal+json', 'application/json'], render: renderHal },
];
