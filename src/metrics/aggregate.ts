/** The metrics of several processes as those of one. */
import { AggregatorRegistry, type Registry } from 'prom-client';

/** The metrics of a process, as `getMetricsAsJSON` of its registry returns them. */
export type ProcessMetrics = readonly { readonly name: string; readonly type: unknown }[];

/** Returns one registry with the metrics of all processes, each combined as its `aggregator` says. */
export function aggregate(metrics: readonly ProcessMetrics[]): Registry {
  return AggregatorRegistry.aggregate([...metrics]);
}

/** prom-client declares an enumeration of numbers, and has these strings at run time. */
const COUNTING: ReadonlySet<unknown> = new Set(['counter', 'histogram']);

/** Returns the sums of the counters and histograms, which must not fall when a process ends. */
export function countersOf(metrics: readonly ProcessMetrics[]): ProcessMetrics {
  return aggregate(metrics.map((one) => one.filter(({ type }) => COUNTING.has(type)))).getMetricsAsArray();
}
