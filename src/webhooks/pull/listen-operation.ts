/** The event stream of a pull webhook, for one listener; ends when either side closes it. */
import type { Readable } from 'node:stream';
import { bearerTokenOf } from '#http/caller.ts';
import { streaming, type ApiRequest, type Operation } from '#http/operation.ts';
import { Problem } from '#core/problem.ts';
import type { Principal } from '#core/principal.ts';
import { CHANGE_SCOPES, keyOf, type WebhookDeps } from '../webhook-access.ts';
import { pullWebhookOf } from './listener-access.ts';
import { beginListening, renewListening, lastListened } from './listeners-sql.ts';

/** Called periodically: returns why the stream must end; undefined if it may continue. */
type CheckStream = (now: Date) => Promise<'replaced' | 'deleted' | 'unauthorized' | undefined>;

/** Opens the stream of a webhook, which replaces an older one. */
export type OpenStream = (
  webhook: { shard: number; webhookId: number; storeId: number },
  checkStream: CheckStream,
) => { kind: 'open'; readable: Readable } | { kind: 'full' | 'too_many' | 'stopping' };

/** Returns the principal of a token. Throws a 401 Problem if the token is no longer valid. */
export type Authenticate = (token: string, now: Date) => Promise<Principal>;

const RENEWAL_INTERVAL_MS = 60_000;
const RETRY_AFTER_SECONDS = '5';

const retryLater = (status: number, code: string, message: string): Problem =>
  new Problem(status, { code, message }, { headers: { 'Retry-After': RETRY_AFTER_SECONDS } });

function problemOf(kind: 'full' | 'too_many' | 'stopping'): Problem {
  switch (kind) {
    case 'full':
      return retryLater(503, 'busy', 'Too many listeners are connected: try again in a few seconds');
    case 'too_many':
      return retryLater(
        429,
        'too_many_requests',
        'The store has reached its limit of listeners: end one of them first',
      );
    case 'stopping':
      return retryLater(503, 'unavailable', 'The service is stopping: try again shortly');
  }
}

/** Returns the principal of the token; null if it is no longer valid. */
async function principalOf(authenticate: Authenticate, token: string, now: Date): Promise<Principal | null> {
  try {
    return await authenticate(token, now);
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return null;
    throw error;
  }
}

/**
 * Returns a check that the token is valid, the webhook exists, and no newer listener has begun in any process. Its first call
 * registers this listener.
 */
function createStreamCheck(
  { sql, authenticate }: Pick<WebhookDeps, 'sql' | 'authenticate'>,
  { params, headers }: Pick<ApiRequest, 'params' | 'headers'>,
): CheckStream {
  const token = bearerTokenOf(headers['authorization']) ?? '';
  let listeningSince: Date | undefined;
  return async (now) => {
    const principal = await principalOf(authenticate, token, now);
    if (principal === null) return 'unauthorized';
    const key = keyOf({ params, principal });
    if (listeningSince === undefined)
      return (listeningSince = await beginListening(sql, key, now)) === undefined ? 'deleted' : undefined;
    const listenedAt = await lastListened(sql, key);
    if (listenedAt === undefined) return 'deleted';
    if (listenedAt.getTime() !== listeningSince.getTime()) return 'replaced';
    if (now.getTime() - listeningSince.getTime() < RENEWAL_INTERVAL_MS) return undefined;
    if (!(await renewListening(sql, key, { before: listeningSince, now }))) return 'replaced';
    listeningSince = now;
    return undefined;
  };
}

export function createListen(deps: WebhookDeps): Operation {
  return streaming({
    title: 'Listen to this webhook',
    summary:
      'A stream of server-sent events: one for each queued delivery, with the request that a url would receive; for the app and the user that created the webhook, one listener at a time',
    scopes: CHANGE_SCOPES,
    handle: async (request) => {
      const { storeId } = await pullWebhookOf(deps, request);
      const { shard, id: webhookId } = keyOf(request);
      return {
        status: 200,
        open: () => {
          const opened = deps.pull.open({ shard, webhookId, storeId }, createStreamCheck(deps, request));
          if (opened.kind !== 'open') throw problemOf(opened.kind);
          return opened.readable;
        },
      };
    },
  });
}
