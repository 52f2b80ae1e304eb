/** Decodes the bytes of a request, and makes the 400 for malformed ones. */
import { isUtf8 } from 'node:buffer';
import { invalid, type Problem } from '#core/problem.ts';

/** Returns the 400 for a malformed body. `field` is the path of the member; empty for the whole body. */
export function malformed(message: string, field = ''): Problem {
  return invalid({ code: 'malformed_body', message, ...(field === '' ? {} : { field }) });
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Returns the text of a body without its byte order mark. Throws a 400 if the body is not UTF-8, or contains a NUL,
 * which PostgreSQL cannot store. Both checks read the bytes: 3 to 8 ms for 16 MiB, against 12 to 23 ms with TextDecoder
 * and a search in the text.
 */
export function decode(bytes: Uint8Array): string {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isUtf8(body)) throw malformed('The body is not valid UTF-8');
  if (body.includes(0)) throw malformed('The body contains a NUL character');
  const hasMark = body.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  return body.toString('utf8', hasMark ? BYTE_ORDER_MARK.length : 0);
}

/** Returns whether all percent sequences of a query or form are valid UTF-8. */
export function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
