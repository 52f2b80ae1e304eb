/** A stream of what a held webhook is sent, for one listener, until one of both ends it. */
import type { Readable } from 'node:stream';
import { bearerTokenOf } from '#http/bearer-token.ts';
import { streaming, type ApiRequest, type Operation } from '#http/operation.ts';
import { Problem } from '#core/problem.ts';
import type { Principal } from '#core/principal.ts';
import { keyOf, type WebhookDeps } from '../access.ts';
import { heldWebhookOf } from './listener.ts';
import { beginListening, goOnListening, lastListened } from './pull-sql.ts';

/** Asked again and again: why the stream has to end; undefined where it may go on. */
type MayGoOn = (now: Date) => Promise<'replaced' | 'deleted' | 'unauthorized' | undefined>;

/** Opens the stream of a webhook, in whose place a newer one comes. */
export type OpenStream = (
  webhook: { shard: number; webhookId: number; storeId: number },
  mayGoOn: MayGoOn,
) => { kind: 'open'; readable: Readable } | { kind: 'full' | 'too_many' | 'stopping' };

/** A token → who it stands for. Throws a 401 Problem where it stands for nobody any more. */
export type Authenticate = (token: string, now: Date) => Promise<Principal>;

const RENEWED_EVERY_MS = 60_000;
const RETRY_AFTER_SECONDS = '5';

const later = (status: number, code: string, message: string): Problem =>
  new Problem(status, { code, message }, { headers: { 'Retry-After': RETRY_AFTER_SECONDS } });

const hindrance = (kind: 'full' | 'too_many' | 'stopping'): Problem => {
  switch (kind) {
    case 'full':
      return later(503, 'busy', 'As many listeners as possible are connected at the moment: try again in some seconds');
    case 'too_many':
      return later(429, 'too_many_requests', 'The store has as many listeners as it may have: end one of them first');
    case 'stopping':
      return later(503, 'unavailable', 'The service is about to stop: try again shortly');
  }
};

/** Who holds the token, as long as it holds; null afterwards. */
const holderOf = async (authenticate: Authenticate, token: string, now: Date): Promise<Principal | null> => {
  try {
    return await authenticate(token, now);
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return null;
    throw error;
  }
};

/**
 * Whether the token still stands, the webhook is there, and nobody else has begun to listen to it, in any process. Who asks for
 * the first time begins.
 */
const createMayGoOn = (
  { sql, authenticate }: Pick<WebhookDeps, 'sql' | 'authenticate'>,
  { params, headers }: Pick<ApiRequest, 'params' | 'headers'>,
): MayGoOn => {
  const token = bearerTokenOf(headers['authorization']) ?? '';
  let ours: Date | undefined;
  return async (now) => {
    const principal = await holderOf(authenticate, token, now);
    if (principal === null) return 'unauthorized';
    const key = keyOf({ params, principal });
    if (ours === undefined) return (ours = await beginListening(sql, key, now)) === undefined ? 'deleted' : undefined;
    const listenedAt = await lastListened(sql, key);
    if (listenedAt === undefined) return 'deleted';
    if (listenedAt.getTime() !== ours.getTime()) return 'replaced';
    if (now.getTime() - ours.getTime() < RENEWED_EVERY_MS) return undefined;
    if (!(await goOnListening(sql, key, { before: ours, now }))) return 'replaced';
    ours = now;
    return undefined;
  };
};

export const createListen = (deps: WebhookDeps): Operation =>
  streaming({
    title: 'Listen to this webhook',
    summary:
      'A stream of server-sent events: one for each delivery that is held, with the request that a url would have got; for the app that made the webhook and the same person, one listener at a time',
    handle: async (request) => {
      const { storeId } = await heldWebhookOf(deps, request);
      const { shard, id: webhookId } = keyOf(request);
      return {
        status: 200,
        open: () => {
          const opened = deps.held.open({ shard, webhookId, storeId }, createMayGoOn(deps, request));
          if (opened.kind !== 'open') throw hindrance(opened.kind);
          return opened.readable;
        },
      };
    },
  });
