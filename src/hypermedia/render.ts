/** The formats there are. A new one is a line here and a file beside it. */
import type { Document, Naming } from './document.ts';
import { halSchema, type JsonSchema } from './hal-schema.ts';
import { renderHal } from './hal.ts';
import { renderHtml } from './html/page.ts';
import { renderSiren } from './siren.ts';
import type { View } from './view.ts';
import { renderXml } from './xml.ts';

export type Format = {
  mediaTypes: readonly [string, ...string[]];
  /** Appended to the media type in Content-Type. */
  charset?: string;
  /** Says what can be done: others leave that to OPTIONS. */
  showsActions?: true;
  /** For people: it needs a session or a token, and no version header; `view` is always given. */
  isPage?: true;
  /** JSON Schema of what it makes of documents like this one, where it is JSON. */
  schema?: (document: Document, naming: Naming) => JsonSchema;
  /** What a schema says of every document in it, where no more is known. */
  outline?: JsonSchema;
  render: (document: Document, naming: Naming, view?: View) => string;
};

/** The root of every body in XML; OpenAPI calls it after the schema where nothing else is said. */
export const rootElement: JsonSchema = { xml: { name: 'resource' } };

/** The first one is the default, also for Accept: *\/*. */
export const formats: readonly [Format, ...Format[]] = [
  { mediaTypes: ['application/hal+json', 'application/json'], schema: halSchema, render: renderHal },
  { mediaTypes: ['application/vnd.siren+json'], showsActions: true, render: renderSiren },
  // RFC 7303 §3.2 makes the parameter the authority: whoever reads the text without a parser knows its encoding, too.
  {
    mediaTypes: ['application/hal+xml', 'application/xml'],
    charset: 'utf-8',
    outline: { type: 'object', ...rootElement },
    render: renderXml,
  },
  { mediaTypes: ['text/html'], charset: 'utf-8', showsActions: true, isPage: true, render: renderHtml },
];
