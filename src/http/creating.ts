/** Operations that create a resource or must not run twice. */
import type { Static, TSchema } from 'typebox';
import type { Tx } from '#db/pool.ts';
import type { Fault } from '#core/problem.ts';
import type { Done } from './pages/done.ts';
import {
  withPrincipal,
  operation,
  type ApiRequest,
  type OperationOptions,
  type CreatedResult,
  type Operation,
} from './operation.ts';

type CreateOptions<Schema extends TSchema, Prepared> = OperationOptions & {
  input: Schema;
  /** Throws a 404 if the caller cannot access the address. */
  admit?: (request: ApiRequest) => Promise<void>;
  review?: (request: ApiRequest<Partial<Static<Schema>>>) => Promise<readonly Fault[]>;
  prepare: (request: ApiRequest<Static<Schema>>) => Promise<Prepared>;
  make: (
    tx: Tx,
    request: ApiRequest<Static<Schema>>,
    prepared: Prepared,
  ) => Promise<CreatedResult & { made?: () => Promise<void> }>;
};

function createOperation<Schema extends TSchema, Prepared>(
  described: CreateOptions<Schema, Prepared>,
  rest: Pick<Operation, 'statuses'> & { answer: (made: CreatedResult) => Awaited<ReturnType<Operation['handle']>> },
): Operation {
  const { admit } = described;
  return operation(described, {
    access: described.access ?? 'token',
    statuses: rest.statuses,
    takesKey: true,
    storesResponse: true,
    input: described.input,
    admit: admit && ((request) => admit(withPrincipal(request))),
    review: async (request) => described.review?.(withPrincipal(request)) ?? [],
    handle: async (rawRequest, execution) => {
      const request = withPrincipal<Static<Schema>>(rawRequest);
      const previous = await execution.findPrevious();
      if (previous !== undefined) return rest.answer(previous);
      const prepared = await described.prepare(request);
      let made: (() => Promise<void>) | undefined;
      const stored = await execution.run(async (tx) => {
        const { made: afterCommit, ...result } = await described.make(tx, request, prepared);
        made = afterCommit;
        return result;
      });
      await made?.();
      return rest.answer(stored);
    },
  });
}

/**
 * Defines a POST that creates a resource: 201, and with an Idempotency-Key at most once. `prepare` checks the caller
 * and runs slow steps (name look-ups, password hashes); `make` does everything else in the given transaction; `made`
 * runs after the commit, but not for a repeated request.
 */
export function creating<Schema extends TSchema, Prepared>(described: CreateOptions<Schema, Prepared>): Operation {
  return createOperation(described, { statuses: [201], answer: (made) => ({ status: 201, ...made }) });
}

/** Defines a POST that changes an existing resource: 200 with its new state, at `location`. */
export function doing<Schema extends TSchema, Prepared>(
  described: CreateOptions<Schema, Prepared> & { done?: Done },
): Operation {
  return createOperation(described, {
    statuses: [200],
    answer: ({ location, ...made }) => {
      const { done } = described;
      return { status: 200, next: location, ...(done !== undefined && { done }), ...made };
    },
  });
}

/**
 * Defines a POST that starts background work: 202 with the created resource, at `location`, where progress can be
 * watched.
 */
export function beginning<Schema extends TSchema, Prepared>(described: CreateOptions<Schema, Prepared>): Operation {
  return createOperation(described, { statuses: [202], answer: (made) => ({ status: 202, ...made }) });
}
