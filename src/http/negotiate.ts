/** Content negotiation by `Accept` (RFC 9110 §12.5.1). */
import { formats, type Format } from '#hypermedia/render.ts';
import { Problem } from '#core/problem.ts';

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
