/** Operations that make something, or do something that is not to be done twice. */
import type { Static, TSchema } from 'typebox';
import type { Tx } from '#db/pool.ts';
import type { Fault } from '#core/problem.ts';
import type { Done } from './pages/done.ts';
import { known, operation, type ApiRequest, type Described, type Made, type Operation } from './operation.ts';

type Making<Schema extends TSchema, Prepared> = Described & {
  input: Schema;
  /** Throws a 404 where the caller does not reach the place. */
  admit?: (request: ApiRequest) => Promise<void>;
  review?: (request: ApiRequest<Partial<Static<Schema>>>) => Promise<readonly Fault[]>;
  prepare: (request: ApiRequest<Static<Schema>>) => Promise<Prepared>;
  make: (
    tx: Tx,
    request: ApiRequest<Static<Schema>>,
    prepared: Prepared,
  ) => Promise<Made & { made?: () => Promise<void> }>;
};

const making = <Schema extends TSchema, Prepared>(
  described: Making<Schema, Prepared>,
  rest: Pick<Operation, 'isCreating'> & { answer: (made: Made) => Awaited<ReturnType<Operation['handle']>> },
): Operation =>
  operation(described, {
    access: described.access ?? 'token',
    isCreating: rest.isCreating,
    takesKey: true,
    isRemembered: true,
    input: described.input,
    admit: (request) => described.admit?.(known(request)),
    review: async (request) => described.review?.(known(request)) ?? [],
    handle: async (asked, once) => {
      const request = known<Static<Schema>>(asked);
      const before = await once.before();
      if (before !== undefined) return rest.answer(before);
      const prepared = await described.prepare(request);
      let made: (() => Promise<void>) | undefined;
      const thing = await once.make(async (tx) => {
        const { made: after, ...kept } = await described.make(tx, request, prepared);
        made = after;
        return kept;
      });
      await made?.();
      return rest.answer(thing);
    },
  });

/**
 * A POST that makes something: 201, and with an Idempotency-Key at most once. `prepare` says whether the caller may ask at
 * all and does what takes long (names, password hashes); `make` does everything else in the transaction it is given;
 * `made` runs after the commit and not for a repetition.
 */
export const creating = <Schema extends TSchema, Prepared>(described: Making<Schema, Prepared>): Operation =>
  making(described, { isCreating: true, answer: (made) => ({ status: 201, ...made }) });

/** The same for a POST that does something to what is there: 200 with what it is now, at `location`. */
export const doing = <Schema extends TSchema, Prepared>(
  described: Making<Schema, Prepared> & { done?: Done },
): Operation =>
  making(described, {
    isCreating: false,
    answer: ({ location, ...made }) => {
      const { done } = described;
      return { status: 200, next: location, ...(done !== undefined && { done }), ...made };
    },
  });

/** The same for a POST after whose answer the work begins: 202 with what it made, at `location`, where the work can be watched. */
export const beginning = <Schema extends TSchema, Prepared>(described: Making<Schema, Prepared>): Operation =>
  making(described, { isCreating: false, answer: (made) => ({ status: 202, ...made }) });
