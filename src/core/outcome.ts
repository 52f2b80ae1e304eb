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
