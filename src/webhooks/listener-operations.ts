/**
 * Pull webhooks: the two operations of a listener (its stream of deliveries, and the answer to each, which ends the delivery), and the
 * deletion of those without a listener for a day. Their listener ended without deleting them. The shard owner then ends their deliveries, as
 * after any deletion.
 */
import type { Readable } from 'node:stream';
import { Type, type Static } from 'typebox';
import { bearerTokenOf } from '#http/caller.ts';
import { closedObject, clearableChoice, clearableText } from '#http/inputs.ts';
import { accepting, streaming, type ApiRequest, type Operation, type AddressedRequest } from '#http/operation.ts';
import type { FindEndReason } from '#core/event-stream.ts';
import { parseId } from '#core/ids.ts';
import { withCurrentKeys } from '#core/keys.ts';
import type { ListenerAnswer } from '#core/outcome.ts';
import { refuseSuspended, type Principal } from '#core/principal.ts';
import { invalidValue, conflict, type Fault, invalid, notFound, Problem } from '#core/problem.ts';
import { transaction } from '#db/pool.ts';
import type { Purge } from '#db/purges.ts';
import { CHANGE_SCOPES, isCreator, keyOf, webhookOf, type WebhookDeps } from './webhook-access.ts';
import { attemptDocument } from './history/history-documents.ts';
import type { AttemptRow } from './history/history-sql.ts';
import {
  type WebhookRow,
  deleteWebhook,
  lockWebhook,
  beginListening,
  renewListening,
  lastListened,
  listUnattended,
} from './webhook-sql.ts';
import { recordWebhook } from './webhook.ts';

const NOT_A_PULL_WEBHOOK = 'Not a pull webhook: create a webhook with is_held "1"';

/** Returns the webhook in the path. Throws a 404 unless the caller is the app and user that created it. */
async function createdWebhookOf(sql: WebhookDeps['sql'], request: AddressedRequest): Promise<WebhookRow> {
  const webhook = await webhookOf(sql, request);
  // A webhook that a user created belongs to no app: its deliveries are signed with a key that apps may not see.
  if (!isCreator(request.principal, webhook)) throw notFound('webhook');
  return webhook;
}

/** Returns the pull webhook in the path. Throws a 404 like `createdWebhookOf`, and a 409 for other webhooks. */
async function pullWebhookOf(sql: WebhookDeps['sql'], request: AddressedRequest): Promise<WebhookRow> {
  const webhook = await createdWebhookOf(sql, request);
  if (!webhook.isHeld) throw new Problem(409, { code: 'not_held', message: NOT_A_PULL_WEBHOOK });
  return webhook;
}

/** Opens the stream of a webhook, which replaces an older one. Throws a 429 or 503 Problem if there are too many. */
export type OpenStream = (
  webhook: { shard: number; webhookId: number; storeId: number },
  findEndReason: FindEndReason,
) => Readable;

/** Returns the principal of a token. Throws a 401 Problem if the token is no longer valid, a 403 if its app or store is suspended. */
export type Authenticate = (token: string, now: Date) => Promise<Principal>;

const RENEWAL_INTERVAL_MS = 60_000;
/** Returns the principal of the token; null if it is no longer valid, or its app or the store is suspended. */
async function principalOf(
  authenticate: Authenticate,
  token: string,
  { storeId, now }: { storeId: number; now: Date },
): Promise<Principal | null> {
  try {
    const principal = await authenticate(token, now);
    refuseSuspended(principal, storeId);
    return principal;
  } catch (error) {
    if (error instanceof Problem && (error.status === 401 || error.status === 403)) return null;
    throw error;
  }
}

/**
 * Returns a check that the token is valid, the webhook exists, and no newer listener has begun in any process. Its first call
 * registers this listener.
 */
function createStreamCheck(
  { sql, clock, authenticate }: Pick<WebhookDeps, 'sql' | 'clock' | 'authenticate'>,
  { params, headers }: Pick<ApiRequest, 'params' | 'headers'>,
  storeId: number,
): FindEndReason {
  const token = bearerTokenOf(headers['authorization']) ?? '';
  let listeningSince: Date | undefined;
  return async () => {
    const now = clock.now();
    const principal = await principalOf(authenticate, token, { storeId, now });
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
      const { storeId } = await pullWebhookOf(deps.sql, request);
      const { shard, id: webhookId } = keyOf(request);
      return {
        status: 200,
        open: () => deps.pull.open({ shard, webhookId, storeId }, createStreamCheck(deps, request, storeId)),
      };
    },
  });
}

/** Outcomes without a response, as in attempts; they describe the target to which the listener forwarded the request. */
const LISTENER_OUTCOMES = [
  'timed_out:connect',
  'timed_out:tls',
  'timed_out:send',
  'timed_out:answer',
  'timed_out:body',
  'unreachable:dns',
  'unreachable:connect',
  'unreachable:tls',
  'unreachable:reset',
  'malformed',
  'too_large',
] as const;

const DURATION_MAX_MS = 86_400_000;

const answerSchema = closedObject({
  response_code: Type.Unsafe<number | null>({
    type: ['integer', 'null'],
    minimum: 100,
    maximum: 599,
    description: 'The status of the response; null if there was none or the listener only displayed the request.',
  }),
  duration: Type.Integer({
    minimum: 0,
    maximum: DURATION_MAX_MS,
    description: 'The duration in milliseconds.',
  }),
  outcome: clearableChoice(LISTENER_OUTCOMES, {
    description: 'Why there was no response. Without outcome and response_code the delivery counts as successful.',
  }),
  response_headers: clearableText({ description: 'One line per header, name: value. 16 KiB are kept.' }),
  response_body: clearableText({ kind: 'code', description: 'The response body. 16 KiB are kept.' }),
});

type AnswerBody = Static<typeof answerSchema>;
/** Why a delivery takes no answer. */
type Unanswered = 'answered_otherwise' | 'ended' | 'unknown';

/** Records the answer of a delivery. The same answer again returns the same attempt; a different one is rejected. */
export type AnswerDelivery = (
  webhook: { shard: number; webhookId: number },
  deliveryId: number,
  answer: ListenerAnswer,
) => Promise<AttemptRow | Unanswered>;

function problemOf(reason: Unanswered): Problem {
  switch (reason) {
    case 'answered_otherwise':
      return conflict('already_answered', 'This delivery already has a different answer');
    case 'ended':
      return conflict(
        'ended',
        'The delivery ended without an answer: the webhook was disabled meanwhile, or the delivery expired',
      );
    case 'unknown':
      return notFound('delivery');
  }
}

function faultsOf({ response_code: code, outcome }: Partial<AnswerBody>): Fault[] {
  if (typeof code !== 'number' || !outcome) return [];
  const message = 'outcome must be omitted if there is a response_code';
  return [invalidValue('outcome', message)];
}

const parseAnswer = (body: AnswerBody): ListenerAnswer => ({
  code: body.response_code,
  outcome: body.outcome || null,
  durationMs: body.duration,
  headers: body.response_headers || null,
  body: body.response_body || null,
});

export function createAnswer(deps: WebhookDeps): Operation {
  return accepting({
    title: 'Answer this delivery',
    summary:
      'Ends a delivery that a listener fetched, with its result: it is not retried and does not affect the health of the webhook',
    scopes: CHANGE_SCOPES,
    input: answerSchema,
    admit: async (request) => void (await createdWebhookOf(deps.sql, request)),
    review: async ({ body }) => faultsOf(body),
    handle: async (request) => {
      const webhook = await pullWebhookOf(deps.sql, request);
      const faults = faultsOf(request.body);
      if (faults.length > 0) throw invalid(...faults);
      const deliveryId = parseId(request.params['delivery_id'] ?? '');
      if (deliveryId === undefined) throw notFound('delivery');
      const { shard, id: webhookId } = keyOf(request);
      const answered = await deps.pull.answer({ shard, webhookId }, deliveryId, parseAnswer(request.body));
      if (typeof answered === 'string') throw problemOf(answered);
      return { status: 200, document: attemptDocument(answered, webhook, deps.config.baseUrl) };
    },
  });
}

type UnattendedDeps = Pick<WebhookDeps, 'sql' | 'changelog' | 'announce'> & { unattendedHours: number };

const HOUR_MS = 3_600_000;

const remove = (
  { sql, changelog, announce }: UnattendedDeps,
  { shard, id }: { shard: number; id: number },
  { before, now }: { before: Date; now: Date },
): Promise<boolean> =>
  transaction(sql, async (tx) => {
    const key = { shard, id, stores: null, app: null };
    const row = await lockWebhook(tx, key);
    // The webhook may have been deleted, have a listener again, or belong to a suspended app, before it was locked.
    const listenedAt = row && (await lastListened(tx, key));
    if (row === undefined || row.inactiveReason === 'suspended' || listenedAt === undefined || listenedAt >= before)
      return false;
    await deleteWebhook(tx, key);
    await recordWebhook(tx, changelog, { before: withCurrentKeys(row, now), after: null }, { principal: null, now });
    await announce(tx, shard, [id]);
    return true;
  });

export function createUnattendedPurge(deps: UnattendedDeps): Purge {
  const keptMs = deps.unattendedHours * HOUR_MS;
  return {
    name: 'forsaken_webhooks',
    keptMs,
    purge: async (limit, now) => {
      const before = new Date(now.getTime() - keptMs);
      let removed = 0;
      for (const webhook of await listUnattended(deps.sql, before, limit)) {
        if (await remove(deps, webhook, { before, now })) removed += 1;
      }
      return removed;
    },
  };
}
