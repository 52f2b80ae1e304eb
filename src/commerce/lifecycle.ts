/** The steps in the life of a subscription, from two consecutive versions of it: pure. */
import type { Value } from '#hypermedia/document.ts';

type Subscription = { readonly [name: string]: Value };

export const STEPS = [
  'activated',
  'modified',
  'cancelled',
  'billing_success',
  'billing_failure',
  'dunning',
  'recovered',
] as const;

export type Step = (typeof STEPS)[number];

/** What happened between two versions, in the order it is told; `before` is undefined for the first version. */
export const stepsBetween = (
  before: Subscription | undefined,
  after: Subscription,
  _given: { action: string },
): Step[] => {
  if (before === undefined) return after['is_active'] === true ? ['activated'] : [];
  return [];
};
