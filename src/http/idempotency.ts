/**
 * `Idempotency-Key`: runs a repeated request once, even if both arrive concurrently, in two processes, or after a crash
 * between commit and response. The response is stored in the transaction of the change.
 */
import { createHash, createHmac } from 'node:crypto';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { Sealer, Vault } from '#db/seal.ts';
import { vaultOf } from '#db/sealed-tables.ts';
import type { Keys } from '#core/keys.ts';
import { purgesOf, type Purge } from '#db/purges.ts';
import { Problem, invalid } from '#core/problem.ts';
import type { Principal } from '#core/principal.ts';
import {
  operation,
  type ApiRequest,
  type CreatedResult,
  type IdempotentExecution,
  type Operation,
  type BodyOptions,
  checksOf,
  withPrincipal,
  type Done,
} from './operation.ts';
import { claimKey, findResponse, storeResponse, type StoredResponse } from './idempotency-sql.ts';
import type { Static, TSchema } from 'typebox';

/** Format and lifetime of idempotency keys. */
const KEY = /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/;

export function isIdempotencyKey(key: string): boolean {
  return KEY.test(key);
}

export const IDEMPOTENCY_KEY_FORM = 'must be 1 to 255 printable ASCII characters';

/** Time for which the response of a key is stored. */
export const IDEMPOTENCY_KEPT_MS = 24 * 3_600_000;

/** Returns the associated data of a sealed response: copied to another key it cannot be opened. */
function responseBoundTo(scope: Buffer): string {
  return `idempotency:${scope.toString('hex')}`;
}

/** `fingerprintKeys`: bodies may contain guessable secrets, so their fingerprint is an HMAC. */
export type IdempotencyDeps = { sql: Sql; sealer: Sealer; fingerprintKeys: Keys };

type RequestIdentity = {
  key: string | undefined;
  principal: Principal | null;
  method: string;
  path: string;
  contentType: string;
  bytes: Uint8Array;
  now: Date;
};

function readKey(key: string): string {
  if (isIdempotencyKey(key)) return key;
  const message = `Idempotency-Key ${IDEMPOTENCY_KEY_FORM}`;
  throw invalid({ code: 'invalid_header', message, field: 'Idempotency-Key' });
}

/** Returns the media type without parameters: a charset does not make another body. */
const bareTypeOf = (contentType: string): string => contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';

/** Returns the scope of a key: caller, method, path and key, so that no caller gets the response of another. */
const scopeOf = (key: string, { principal, method, path }: RequestIdentity): Buffer =>
  createHash('sha256')
    .update(JSON.stringify([principal?.clientId, principal?.userId, method, path, key]))
    .digest();

/**
 * Runs requests with the same key in this process one after another, so that they use one connection of the pool. Other
 * processes wait in the database, at the key.
 */
function createSerialQueue() {
  const tails = new Map<string, Promise<unknown>>();
  return async <T>(name: string, run: () => Promise<T>): Promise<T> => {
    const previous = tails.get(name);
    const current = (previous ?? Promise.resolve()).then(run, run);
    tails.set(name, current);
    try {
      return await current;
    } finally {
      if (tails.get(name) === current) tails.delete(name);
    }
  };
}

export function createIdempotency({ sql, sealer, fingerprintKeys }: IdempotencyDeps) {
  const runSerially = createSerialQueue();
  const execution = (
    identity: RequestIdentity,
    { database, shard }: { database: Sql; shard: number | null },
  ): IdempotentExecution => {
    const { key, now, contentType, bytes } = identity;
    const inOther: IdempotentExecution['in'] = (other, otherShard) =>
      execution(identity, { database: other, shard: otherShard });
    if (key === undefined)
      return { findPrevious: async () => undefined, run: (make) => transaction(database, make), in: inOther };
    const scope = scopeOf(readKey(key), identity);
    const boundTo = responseBoundTo(scope);
    const hashWith = (fingerprintKey: Buffer): Buffer =>
      createHmac('sha256', fingerprintKey)
        .update(`${bareTypeOf(contentType)}\n`)
        .update(bytes)
        .digest();
    const bodyHash = hashWith(fingerprintKeys[0]);
    const staleAt = new Date(now.getTime() - IDEMPOTENCY_KEPT_MS);

    const replay = (stored: StoredResponse | undefined): CreatedResult | undefined => {
      if (stored === undefined) return undefined;
      if (fingerprintKeys.some((fingerprintKey) => stored.bodyHash.equals(hashWith(fingerprintKey))))
        return JSON.parse(sealer.open(stored.answer, boundTo)) as CreatedResult;
      const message = 'This Idempotency-Key was used for another body: use a new key for a new request';
      throw new Problem(422, { code: 'idempotency_key_reused', message, field: 'Idempotency-Key' });
    };

    return {
      in: inOther,
      findPrevious: async () => replay(await findResponse(database, scope, staleAt)),
      run: (make) =>
        runSerially(boundTo, () =>
          transaction(database, async (tx) => {
            if (!(await claimKey(tx, { scope, shard, bodyHash, now, staleAt }))) {
              const previous = replay(await findResponse(tx, scope, staleAt));
              if (previous !== undefined) return previous;
              throw new Error('A claimed idempotency key has no stored response');
            }
            const made = await make(tx);
            await storeResponse(tx, scope, sealer.seal(JSON.stringify(made), boundTo));
            return made;
          }),
        ),
    };
  };
  return (identity: RequestIdentity): IdempotentExecution => execution(identity, { database: sql, shard: null });
}

export function createIdempotencyPurges({ sql }: { sql: Sql }): readonly Purge[] {
  const keptMs = IDEMPOTENCY_KEPT_MS;
  return purgesOf(sql, [
    { name: 'idempotency_keys', deletes: 'idempotency_key', key: 'scope', expires: 'date_created', keptMs },
  ]);
}

/** The stored responses, which are sealed again when HALCYON_SECRET_KEY changes. */
export function createAnswerVault(sql: Sql): Vault {
  return vaultOf(sql, {
    name: 'answers',
    seals: 'idempotency_key',
    key: { scope: 'bytea' },
    columns: ['answer'],
    boundTo: ({ scope }) => responseBoundTo(scope),
  });
}

/** Options of an operation that creates a resource or must not run twice. */
type CreateOptions<Schema extends TSchema, Prepared> = BodyOptions<Schema> & {
  prepare: (request: ApiRequest<Static<Schema>>) => Promise<Prepared>;
  /** Says what the request would do. */
  preview?: { title: string; handle: (request: ApiRequest<Static<Schema>>, prepared: Prepared) => Promise<string> };
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
  const { preview } = described;
  return operation(described, {
    ...checksOf(described),
    statuses: rest.statuses,
    takesKey: true,
    preview: preview && {
      title: preview.title,
      handle: async (rawRequest) => {
        const request = withPrincipal<Static<Schema>>(rawRequest);
        return preview.handle(request, await described.prepare(request));
      },
    },
    handle: async (rawRequest, executionOf) => {
      const request = withPrincipal<Static<Schema>>(rawRequest);
      const execution = executionOf();
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
 * runs after the commit, but not for a repeated request. A resource that `make` has found (`isKnown`) is a 200.
 */
export function creating<Schema extends TSchema, Prepared>(described: CreateOptions<Schema, Prepared>): Operation {
  return createOperation(described, {
    statuses: described.statuses ?? [201],
    answer: ({ isKnown, ...made }) => {
      if (isKnown === undefined) return { status: 201, ...made };
      const { document, location: next } = made;
      return { status: 200, document, next };
    },
  });
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
