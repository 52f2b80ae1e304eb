/** The table of formats, of which a new one is one line here and one file, and content negotiation by `Accept` (RFC 9110 §12.5.1). */
import { referTo, type Document, type JsonSchema, type Naming, type SchemaContext } from './document.ts';
import { halComponents, halSchemas, renderHal } from './hal.ts';
import { renderHtml } from './html/document-page.ts';
import { renderSiren, sirenComponents } from './siren.ts';
import type { View } from './view.ts';
import { renderXml } from './xml.ts';
import { Problem } from '#core/problem.ts';

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

export type Representation = { mediaType: string; format: Format };

type Range = { type: string; q: number };

const offered: readonly Representation[] = formats.flatMap((format) =>
  format.mediaTypes.map((mediaType) => ({ mediaType, format })),
);

/** Returns the value of `Content-Type`. */
export function contentTypeOf({ mediaType, format: { charset } }: Representation): string {
  return charset === undefined ? mediaType : `${mediaType}; charset=${charset}`;
}

const parseAccept = (accept: string): Range[] =>
  accept.split(',').flatMap((part) => {
    const [type = '', ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase());
    if (type === '') return [];
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
    const q = weight === undefined ? 1 : Number(weight);
    return [{ type, q: q >= 0 && q <= 1 ? q : 0 }];
  });

/**
 * Returns the weight of a media type: that of the most specific range that matches. At equal weight a more specific range
 * wins, so a type that is named precedes those that only a wildcard matches. Returns 0 if no range matches.
 */
function weightOf(mediaType: string, ranges: readonly Range[]): number {
  const family = `${mediaType.split('/', 1)[0]}/*`;
  for (const [unspecific, type] of [mediaType, family, '*/*'].entries()) {
    const range = ranges.find((candidate) => candidate.type === type);
    // Weights have three decimals (RFC 9110 §12.4.2), so this only breaks ties.
    if (range !== undefined) return range.q === 0 ? 0 : range.q - unspecific * 1e-4;
  }
  return 0;
}

/** The fallback representation, for errors about `Accept` itself. */
export const defaultRepresentation: Representation = {
  mediaType: formats[0].mediaTypes[0],
  format: formats[0],
};

function notAcceptable(available: readonly Representation[]): Problem {
  const list = available.map(({ mediaType }) => mediaType).join(', ');
  return new Problem(406, { code: 'not_acceptable', message: `Accept allows none of: ${list}`, field: 'Accept' });
}

/**
 * Returns the preferred representation, the first one at equal weight; throws a 406 that lists the available media
 * types.
 */
export function negotiate(accept: string | undefined): Representation {
  if (accept === undefined || accept.trim() === '') return defaultRepresentation;
  const ranges = parseAccept(accept);
  let best: Representation | undefined;
  let bestWeight = 0;
  for (const candidate of offered) {
    const weight = weightOf(candidate.mediaType, ranges);
    if (weight > bestWeight) [best, bestWeight] = [candidate, weight];
  }
  if (best !== undefined) return best;
  throw notAcceptable(offered);
}

/** Server-sent events (WHATWG HTML) have no other representation; errors of such a request use the default one. */
const eventStream: Representation = { ...defaultRepresentation, mediaType: 'text/event-stream' };

/** Returns the representation of an event stream; throws a 406 if `Accept` excludes it. */
export function negotiateStream(accept: string | undefined): Representation {
  const isAny = accept === undefined || accept.trim() === '';
  if (isAny || weightOf(eventStream.mediaType, parseAccept(accept)) > 0) return eventStream;
  throw notAcceptable([eventStream]);
}
