/** Why an attempt failed, and what to do about it: a sentence for whoever owns the endpoint. */
import type { OutcomeLabel } from '#core/outcome.ts';

/** Null where nothing is wrong; a function where the sentence follows from the status that was answered. */
type Reason = string | null | ((code: number) => string);

const answered = (code: number, what: string): string => `Your endpoint answered ${code}: ${what}`;

/** What a status asks for that is not 2xx. */
const BY_STATUS: Readonly<Record<number, string>> = {
  400: 'it cannot read the request. Check that it takes JSON, and verifies the raw body before anything parses it.',
  401: 'check that it verifies with the current encryption_key, and that nothing in front of it asks for a password.',
  403: 'check that no firewall or bot protection in front of it turns us away, and that it verifies with the current key.',
  404: 'nothing is there. Check the path in the url of the webhook.',
  405: 'it must take POST at this url.',
  408: 'it waited too long for the request. Check what stands in front of it.',
  413: 'the body is too large for it. Let it take more, or ask for less by the query of the webhook.',
  415: 'it does not take this Content-Type. Let it take the one of the request.',
  422: 'it does not take what is in the body. What it answered may say why.',
  429: 'it gets more than it can take. Set rate_per_second of the webhook.',
  502: 'what stands in front of your server cannot reach it. Check that it runs.',
  503: 'it is overloaded, or down for a while. Check that it runs.',
  504: 'your server does not answer in time what stands in front of it. Answer 2xx first, and do slow work afterwards.',
};

const refused = (code: number): string => {
  const known = BY_STATUS[code];
  if (known !== undefined) return answered(code, known);
  if (code >= 300 && code < 400)
    return answered(code, 'redirects are not followed. Set the url of the webhook to where it leads.');
  if (code >= 400 && code < 500) return answered(code, 'it refuses the request. What it answered may say why.');
  if (code >= 500 && code < 600)
    return answered(code, 'something failed in it. Look into its log at the time of the attempt.');
  return answered(code, 'only 2xx says that it has the event.');
};

/** Every outcome that there is. `isSent`: the request, or some of it, left us. */
const OUTCOMES: Readonly<Record<OutcomeLabel, { isSent: boolean; reason: Reason }>> = {
  delivered: { isSent: true, reason: null },
  refused: { isSent: true, reason: refused },
  gone: {
    isSent: true,
    reason:
      'Your endpoint answered 410, which says that it is gone for good and switches a webhook off. Let it answer 2xx, and switch the webhook on again.',
  },
  'timed_out:connect': {
    isSent: false,
    reason:
      'Nobody took the connection in time. Check the host and the port of the url, and that your firewall lets us in.',
  },
  'timed_out:tls': {
    isSent: false,
    reason:
      'The connection was made, but its encryption was not agreed on in time. Check that https is spoken at the port of the url.',
  },
  'timed_out:send': {
    isSent: true,
    reason: 'Your endpoint did not take all of the request in time. Let it read the whole body.',
  },
  'timed_out:answer': {
    isSent: true,
    reason: 'Your endpoint did not answer in time. Let it answer 2xx first, and do slow work afterwards.',
  },
  'timed_out:body': {
    isSent: true,
    reason: 'Your endpoint began to answer and did not end in time. A status is enough: let it end its answer.',
  },
  'unreachable:dns': {
    isSent: false,
    reason: 'The host of the url does not exist. Check how it is spelled, and its DNS records.',
  },
  'unreachable:connect': {
    isSent: false,
    reason: 'Your endpoint cannot be connected to. Check that your server runs, and listens at the port of the url.',
  },
  'unreachable:tls': {
    isSent: false,
    reason:
      'No encryption could be agreed on. Check that the certificate is for this host, is not over, and comes with its chain.',
  },
  'unreachable:reset': {
    isSent: true,
    reason:
      'The connection ended before your endpoint answered. Look whether your server, or what stands in front of it, stopped or closed it.',
  },
  malformed: {
    isSent: true,
    reason: 'What came back is not HTTP/1.1. Check that the url leads to a web server, and whether it has to be https.',
  },
  too_large: {
    isSent: true,
    reason: 'The headers of the answer are too long. Let your endpoint answer with fewer: none is needed.',
  },
  blocked: {
    isSent: false,
    reason:
      'Nothing may be delivered to the address that the url leads to. Choose a public one, or ask who runs this service.',
  },
  internal: {
    isSent: false,
    reason: 'This failed on our side, and not on yours. Send it again; if that fails too, ask who runs this service.',
  },
};

/** What an attempt is searched by. */
export const OUTCOME_LABELS: readonly string[] = Object.keys(OUTCOMES);

const known = (outcome: string | null) =>
  outcome !== null && Object.hasOwn(OUTCOMES, outcome) ? OUTCOMES[outcome as OutcomeLabel] : undefined;

/** How an attempt ended, as its row has it; null where there is none. */
export type Ended = { outcome: string | null; responseCode: number | null };

/** Why the attempt failed, and what to do; null where it did not, or where nothing is known of it. */
export const reasonOf = ({ outcome, responseCode }: Ended): string | null => {
  const reason = known(outcome)?.reason ?? null;
  return typeof reason === 'function' ? (responseCode === null ? null : reason(responseCode)) : reason;
};

/** Whether some of the request may have reached the endpoint. */
export const wasSent = ({ outcome }: Pick<Ended, 'outcome'>): boolean => known(outcome)?.isSent ?? false;

const NEVER_SENT =
  'It was never sent: before its turn the webhook was switched off, or lost its url, or the event was erased, or no listener answered.';

/** Why a delivery has not arrived: what became of its last attempt. */
export const reasonOfDelivery = (delivery: Ended & { status: string; attempts: number }): string | null =>
  delivery.status === 'failed' && delivery.attempts === 0 ? NEVER_SENT : reasonOf(delivery);
