/**
 * How an attempt to deliver ended, in one word: what who delivers writes into its row, and what who shows it tells in a sentence.
 * A new one is a fault of types in both places.
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
