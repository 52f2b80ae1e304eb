/** Extra request headers of a webhook: names and values that cannot break or forge what a delivery says of itself. */
import type { Fault } from '#kernel/problem.ts';

const NAME_LENGTH_MAX = 100;

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Printable ASCII: what RFC 9110 §5.5 lets a new field send. */
const VALUE = /^[\x20-\x7e]*$/;

/** What the delivery sets itself, what frames or steers the connection, and what a receiver takes as a credential. */
const reserved: ReadonlySet<string> = new Set([
  'accept-encoding',
  'authorization',
  'connection',
  'content-length',
  'content-type',
  'cookie',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
]);

/** One fault for each header that cannot be sent; `prefix` is the operator's own, such as `Service`. */
export const headerFaults = (headers: Readonly<Record<string, string>>, prefix: string): Fault[] => {
  const seen = new Set<string>();
  const own = `${prefix.toLowerCase()}-`;
  return Object.entries(headers).flatMap(([name, value]): Fault[] => {
    const field = `headers.${name}`;
    const refuse = (reason: string): Fault[] => [{ code: 'invalid_value', message: `${field} ${reason}`, field }];
    if (!TOKEN.test(name) || name.length > NAME_LENGTH_MAX) {
      return refuse(`is not the name of a header (at most ${NAME_LENGTH_MAX} letters, digits and hyphens)`);
    }
    const lower = name.toLowerCase();
    if (reserved.has(lower) || lower.startsWith('webhook-') || lower.startsWith(own)) return refuse('is reserved');
    if (seen.has(lower)) return refuse('is given twice');
    seen.add(lower);
    return VALUE.test(value) ? [] : refuse('must be printable ASCII');
  });
};
