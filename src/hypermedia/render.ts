/** The table of formats. A new format is one line here and one file. */
import { referTo, type Document, type JsonSchema, type Naming, type SchemaContext } from './document.ts';
import { halComponents, halSchemas, renderHal } from './hal.ts';
import { renderHtml } from './html/document-page.ts';
import { renderSiren, sirenComponents } from './siren.ts';
import type { View } from './view.ts';
import { renderXml } from './xml.ts';

export type Format = {
  mediaTypes: readonly [string, ...string[]];
  /** The parameter of the media type in Content-Type. */
  charset?: string;
  /** The format contains actions; other formats leave them to OPTIONS. */
  showsActions?: true;
  /** For people: requires a session or a token, and no version header; `view` is always given. */
  isPage?: true;
  /** Returns the JSON Schemas of documents like this one, by name. */
  schemas?: (name: string, document: Document, context: SchemaContext) => Readonly<Record<string, JsonSchema>>;
  /** The schema of every document, for formats without `schemas`. */
  outline?: JsonSchema;
  /** The schemas that the others refer to. */
  components?: Readonly<Record<string, JsonSchema>>;
  render: (document: Document, naming: Naming, view?: View) => string;
};

/** The root element of XML bodies; OpenAPI would use the name of the schema. */
export const rootElement: JsonSchema = { xml: { name: 'resource' } };

/** The first format is the default, also for `Accept: *\/*`. */
export const formats: readonly [Format, ...Format[]] = [
  {
    mediaTypes: ['application/hal+json', 'application/json'],
    schemas: halSchemas,
    components: halComponents,
    render: renderHal,
  },
  {
    mediaTypes: ['application/vnd.siren+json'],
    showsActions: true,
    outline: referTo('siren_entity'),
    components: sirenComponents,
    render: renderSiren,
  },
  // RFC 7303 §3.2 gives the parameter priority, and readers without an XML parser know the encoding, too.
  {
    mediaTypes: ['application/hal+xml', 'application/xml'],
    charset: 'utf-8',
    outline: referTo('xml_resource'),
    components: { xml_resource: { type: 'string', description: 'A resource element: docs/xml.md.', ...rootElement } },
    render: renderXml,
  },
  { mediaTypes: ['text/html'], charset: 'utf-8', showsActions: true, isPage: true, render: renderHtml },
];
