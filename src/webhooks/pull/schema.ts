/** What a listener says of a delivery that it fetched. */
import { Type, type Static } from 'typebox';
import { clearableChoice, clearableText } from '#http/inputs.ts';

/** Why nothing answered, in the words of attempts. What says it of an endpoint says it of whatever the listener passed it on to. */
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
      description: 'What answered it; null where nothing did, or where it was only looked at.',
    }),
    duration: Type.Integer({
      minimum: 0,
      maximum: DURATION_MAX_MS,
      description: 'How long that took, in milliseconds.',
    }),
    outcome: clearableChoice(LISTENER_OUTCOMES, {
      description:
        'Why nothing answered. Without it, and without a response_code, it was only looked at, and has arrived.',
    }),
    response_headers: clearableText({ description: 'A line each, name: value. 16 KiB are kept.' }),
    response_body: clearableText({ kind: 'code', description: 'What came back. 16 KiB are kept.' }),
  },
  { additionalProperties: false },
);

export type AnswerBody = Static<typeof answerSchema>;
export type ListenerOutcome = (typeof LISTENER_OUTCOMES)[number];
