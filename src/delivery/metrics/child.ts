import type { Counter } from 'prom-client';

/** The counter for one value of its label, from 0 on: a counter that is missing looks like one that nobody counts. */
export const childOf = <Label extends string>(counter: Counter<Label>, value: string) => {
  const child = counter.labels(value);
  child.inc(0);
  return child;
};
