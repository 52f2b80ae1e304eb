/** Which requests may come without a body. */
import type { Operation } from '../operation.ts';
import type { Method } from '../route.ts';

/** A POST that needs to be told nothing goes without a body, and without a Content-Type, as `{}` goes. */
export const goesWithoutBody = (method: Method, { input, told }: Pick<Operation, 'input' | 'told'>): boolean => {
  if (method !== 'POST' || input === undefined || told !== undefined) return false;
  const { required = [] } = input as { required?: readonly string[] };
  return required.length === 0;
};
