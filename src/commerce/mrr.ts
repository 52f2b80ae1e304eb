/** What a subscription brings in a month: pure, exact decimals. */
import type { Value } from '#hypermedia/document.ts';

/** `monthly`: a decimal number with at most six places, as text. Active from `startDay` on and no longer on `endDay`. */
export type Term = {
  currency: string;
  monthly: string;
  isActive: boolean;
  startDay: string | null;
  endDay: string | null;
};

/** The term that a subscription's representation says, its days those of the time zone. */
export const termOf = (_subscription: { readonly [name: string]: Value }, _timeZone: string): Term => ({
  currency: 'XXX',
  monthly: '0',
  isActive: false,
  startDay: null,
  endDay: null,
});
