/** The schema of a listener's answer to a delivery. */
import { Type, type Static } from 'typebox';
import { clearableChoice, clearableText } from '#http/inputs.ts';

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

export const answerSchema = Type.Object(
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

export type AnswerBody = Static<typeof answerSchema>;
export type ListenerOutcome = (typeof LISTENER_OUTCOMES)[number];
