/** What became of a held delivery: said by the listener that fetched it, and its end. */
import { accepting, type Operation } from '#http/operation.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { invalid, notFound, Problem, type Fault } from '#core/problem.ts';
import type { WebhookDeps } from '../access.ts';
import { attemptDocument } from '../history/document.ts';
import type { AttemptRow } from '../history/history-sql.ts';
import { heldWebhookOf } from './listener.ts';
import { answerSchema, type AnswerBody, type ListenerOutcome } from './schema.ts';

type Told = {
  code: number | null;
  outcome: ListenerOutcome | null;
  durationMs: number;
  headers: string | null;
  body: string | null;
};

/** Writes it once: the same again is answered the same, and another is refused. */
export type AnswerDelivery = (
  webhook: { shard: number; webhookId: number },
  deliveryId: number,
  told: Told,
) => Promise<{ kind: 'answered'; attempt: AttemptRow } | { kind: 'answered_otherwise' | 'ended' | 'unknown' }>;

const conflict = (code: string, message: string): Problem => new Problem(409, { code, message });

const hindrance = (kind: 'answered_otherwise' | 'ended' | 'unknown'): Problem => {
  switch (kind) {
    case 'answered_otherwise':
      return conflict('already_answered', 'Another answer to this delivery came before, and counts');
    case 'ended':
      return conflict(
        'ended',
        'The delivery has ended without an answer: the webhook was switched off meanwhile, or it was held for too long',
      );
    case 'unknown':
      return notFound('delivery');
  }
};

const faultsOf = ({ response_code: code, outcome }: Partial<AnswerBody>): Fault[] => {
  if (typeof code !== 'number' || !outcome) return [];
  const message = 'outcome says why nothing answered: leave it out where there is a response_code';
  return [{ code: 'invalid_value', message, field: 'outcome' }];
};

const readTold = (body: AnswerBody): Told => ({
  code: body.response_code,
  outcome: body.outcome || null,
  durationMs: body.duration,
  headers: body.response_headers || null,
  body: body.response_body || null,
});

export const createAnswer = (deps: WebhookDeps): Operation =>
  accepting({
    title: 'Answer this delivery',
    summary:
      'Says what became of a held delivery that a listener fetched, which ends it: it is not tried again, and says nothing of how the webhook fares',
    input: answerSchema,
    review: async ({ body }) => faultsOf(body),
    handle: async (request) => {
      const webhook = await heldWebhookOf(deps, request);
      const faults = faultsOf(request.body);
      if (faults.length > 0) throw invalid(...faults);
      const deliveryId = parseId(request.params['delivery_id'] ?? '');
      if (deliveryId === undefined) throw notFound('delivery');
      const key = { shard: shardOf(webhook.id), webhookId: webhook.id };
      const answered = await deps.held.answer(key, deliveryId, readTold(request.body));
      if (answered.kind !== 'answered') throw hindrance(answered.kind);
      return { status: 200, document: attemptDocument(answered.attempt, webhook, deps.baseUrl) };
    },
  });
