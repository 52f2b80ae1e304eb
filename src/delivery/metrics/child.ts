import type { Counter } from 'prom-client';

/**
 * Returns the counter's child for one label value, initialised with 0: otherwise it would be missing from the output.
 */
export function childOf<Label extends string>(counter: Counter<Label>, value: string) {
  const child = counter.labels(value);
  child.inc(0);
  return child;
}
