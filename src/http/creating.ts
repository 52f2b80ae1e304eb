/** Operations that make something. */
import type { Static, TSchema } from 'typebox';
import type { Tx } from '#database/pool.ts';
import type { Fault } from '#kernel/problem.ts';
import { known, operation, type ApiRequest, type Described, type Made, type Operation } from './operation.ts';

/**
 * A POST that makes something: 201, and with an Idempotency-Key at most once. `prepare` says whether the caller may ask at
 * all and does what takes long (names, password hashes); `make` does everything else in the transaction it is given;
 * `made` runs after the commit and not for a repetition.
 */
export const creating = <Schema extends TSchema, Prepared>(
  described: Described & {
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
  },
): Operation =>
  operation(described, {
    access: described.access ?? 'token',
    isCreating: true,
    takesKey: true,
    input: described.input,
    admit: (request) => described.admit?.(known(request)),
    review: async (request) => described.review?.(known(request)) ?? [],
    handle: async (asked, once) => {
      const request = known<Static<Schema>>(asked);
      const before = await once.before();
      if (before !== undefined) return { status: 201, ...before };
      const prepared = await described.prepare(request);
      let made: (() => Promise<void>) | undefined;
      const thing = await once.make(async (tx) => {
        const { made: after, ...rest } = await described.make(tx, request, prepared);
        made = after;
        return rest;
      });
      await made?.();
      return { status: 201, ...thing };
    },
  });
