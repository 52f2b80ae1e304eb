/** The listener's answer to a delivery of a pull webhook, which ends the delivery. */
import { Type, type Static } from 'typebox';
import { clearableChoice, clearableText } from '#http/inputs.ts';
import { accepting, type Operation } from '#http/operation.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { conflict, type Fault, invalid, notFound, type Problem } from '#core/problem.ts';
import { CHANGE_SCOPES, type WebhookDeps } from '../webhook-access.ts';
import { attemptDocument } from '../history/history-documents.ts';
import type { AttemptRow } from '../history/history-sql.ts';
import { createdWebhookOf, pullWebhookOf } from './listener-access.ts';

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

const answerSchema = Type.Object(
  {
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
  },
  { additionalProperties: false },
);

type AnswerBody = Static<typeof answerSchema>;
type ListenerOutcome = (typeof LISTENER_OUTCOMES)[number];

type ListenerAnswer = {
  code: number | null;
  outcome: ListenerOutcome | null;
  durationMs: number;
  headers: string | null;
  body: string | null;
};

/** Records the answer of a delivery. The same answer again returns the same attempt; a different one is rejected. */
export type AnswerDelivery = (
  webhook: { shard: number; webhookId: number },
  deliveryId: number,
  answer: ListenerAnswer,
) => Promise<{ kind: 'answered'; attempt: AttemptRow } | { kind: 'answered_otherwise' | 'ended' | 'unknown' }>;

function problemOf(kind: 'answered_otherwise' | 'ended' | 'unknown'): Problem {
  switch (kind) {
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
  return [{ code: 'invalid_value', message, field: 'outcome' }];
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
    admit: async (request) => void (await createdWebhookOf(deps, request)),
    review: async ({ body }) => faultsOf(body),
    handle: async (request) => {
      const webhook = await pullWebhookOf(deps, request);
      const faults = faultsOf(request.body);
      if (faults.length > 0) throw invalid(...faults);
      const deliveryId = parseId(request.params['delivery_id'] ?? '');
      if (deliveryId === undefined) throw notFound('delivery');
      const key = { shard: shardOf(webhook.id), webhookId: webhook.id };
      const answered = await deps.pull.answer(key, deliveryId, parseAnswer(request.body));
      if (answered.kind !== 'answered') throw problemOf(answered.kind);
      return { status: 200, document: attemptDocument(answered.attempt, webhook, deps.config.baseUrl) };
    },
  });
}
