/**
 * Outcomes of delivery attempts, as stored by `delivery/` and explained by `webhooks/`. A new one is a type error in both until
 * it is handled.
 */
export type OutcomeLabel =
  | 'delivered'
  | 'refused'
  | 'gone'
  | 'timed_out:connect'
  | 'timed_out:tls'
  | 'timed_out:send'
  | 'timed_out:answer'
  | 'timed_out:body'
  | 'unreachable:dns'
  | 'unreachable:connect'
  | 'unreachable:tls'
  | 'unreachable:reset'
  | 'malformed'
  | 'too_large'
  | 'blocked'
  | 'internal';

/**
 * What a listener of a pull webhook reports about a delivery. If `code` is null there was no response: `outcome` says why, or is null if
 * the delivery was only displayed, which counts as delivered.
 */
export type ListenerAnswer = {
  code: number | null;
  outcome: OutcomeLabel | null;
  durationMs: number;
  headers: string | null;
  body: string | null;
};
