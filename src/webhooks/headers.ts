/** Validation of a webhook's additional request headers, which must not break or forge the headers of a delivery. */
import { isHeaderName, isHeaderValue, isReservedHeader } from '#core/header.ts';
import type { Fault } from '#core/problem.ts';
import type { Headers } from '#core/request-secrets.ts';

const NAME_LENGTH_MAX = 100;

/** Returns a fault for each header that cannot be sent. `prefix`: that of the operator's own headers, such as `Service`. */
export function headerFaults(headers: Headers, prefix: string): Fault[] {
  const seen = new Set<string>();
  return Object.entries(headers).flatMap(([name, value]): Fault[] => {
    const field = `headers.${name}`;
    const refuse = (reason: string): Fault[] => [{ code: 'invalid_value', message: `${field} ${reason}`, field }];
    if (!isHeaderName(name) || name.length > NAME_LENGTH_MAX) {
      return refuse(`is not a valid header name (at most ${NAME_LENGTH_MAX} letters, digits and hyphens)`);
    }
    if (isReservedHeader(name, prefix)) return refuse('is reserved');
    const lower = name.toLowerCase();
    if (seen.has(lower)) return refuse('is a duplicate');
    seen.add(lower);
    return value === null || isHeaderValue(value) ? [] : refuse('must be printable ASCII');
  });
}
