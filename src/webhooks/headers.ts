/** Extra request headers of a webhook: names and values that cannot break or forge what a delivery says of itself. */
import { isHeaderName, isHeaderValue, isReservedHeader } from '#core/header.ts';
import type { Fault } from '#core/problem.ts';
import type { Headers } from '#core/request-secrets.ts';

const NAME_LENGTH_MAX = 100;

/** One fault for each header that cannot be sent; `prefix` is the operator's own, such as `Service`. */
export const headerFaults = (headers: Headers, prefix: string): Fault[] => {
  const seen = new Set<string>();
  return Object.entries(headers).flatMap(([name, value]): Fault[] => {
    const field = `headers.${name}`;
    const refuse = (reason: string): Fault[] => [{ code: 'invalid_value', message: `${field} ${reason}`, field }];
    if (!isHeaderName(name) || name.length > NAME_LENGTH_MAX) {
      return refuse(`is not the name of a header (at most ${NAME_LENGTH_MAX} letters, digits and hyphens)`);
    }
    if (isReservedHeader(name, prefix)) return refuse('is reserved');
    const lower = name.toLowerCase();
    if (seen.has(lower)) return refuse('is given twice');
    seen.add(lower);
    return value === null || isHeaderValue(value) ? [] : refuse('must be printable ASCII');
  });
};
