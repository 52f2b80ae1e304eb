import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import { aggregate, countersOf } from './metrics-server.ts';

async function metricsOf(value: number) {
  const registry = new Registry();
  const registers = [registry];
  new Counter({ name: 'requests', help: '-', registers }).inc(value);
  new Gauge({ name: 'sockets', help: '-', registers }).set(value);
  new Gauge({ name: 'oldest', help: '-', registers, aggregator: 'max' }).set(value);
  new Histogram({ name: 'seconds', help: '-', registers, buckets: [5] }).observe(value);
  return registry.getMetricsAsJSON();
}

const valuesIn = (text: string): Record<string, number> =>
  Object.fromEntries([...text.matchAll(/^(\w+) (\d+)$/gm)].map(([, name = '', value]) => [name, Number(value)]));

test('metrics are combined by their aggregators', async () => {
  const all = aggregate([await metricsOf(2), await metricsOf(3)]);
  const expected = { requests: 5, sockets: 5, oldest: 3, seconds_sum: 5, seconds_count: 2 };
  assert.deepEqual(valuesIn(await all.metrics()), expected);
});

test('the counters of a process that has ended are kept, and its gauges are not', async () => {
  const ended = countersOf([countersOf([await metricsOf(1)]), await metricsOf(2)]);
  const all = aggregate([ended, await metricsOf(3)]);
  const expected = { requests: 6, sockets: 3, oldest: 3, seconds_sum: 6, seconds_count: 3 };
  assert.deepEqual(valuesIn(await all.metrics()), expected);
});
