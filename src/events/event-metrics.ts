/** Prometheus metrics of publishing and of recoveries. */
import { Counter, Gauge, Histogram, type Registry } from '@prometheus-io/client';

export type RecoveryMetrics = {
  /** Counts deliveries that a recovery created. */
  made: (deliveries: number) => void;
  ended: (state: 'finished' | 'stopped') => void;
  /** Sets the number of unfinished recoveries of the shards of this process. */
  open: (recoveries: number) => void;
};

export function createRecoveryMetrics(registry: Registry): RecoveryMetrics {
  const registers = [registry];
  const events = new Counter({
    name: 'halcyon_recovery_events_total',
    help: 'Events for which a recovery made a delivery',
    registers,
  });
  const ended = new Counter({
    name: 'halcyon_recoveries_ended_total',
    help: 'Recoveries that ended here, by how',
    labelNames: ['state'],
    registers,
  });
  const open = new Gauge({
    name: 'halcyon_recoveries_open',
    help: 'Recoveries of the shards of this process that are not ended',
    registers,
  });
  const byState = { finished: ended.labels('finished'), stopped: ended.labels('stopped') };
  for (const counter of Object.values(byState)) counter.inc(0);
  return {
    made: (deliveries) => events.inc(deliveries),
    ended: (state) => byState[state].inc(),
    open: (recoveries) => open.set(recoveries),
  };
}

const BUCKETS_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BUCKETS_EVENTS = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000];

export type PublishMetrics = {
  /** Counts an attempt to write a batch. A failed batch is retried in halves, and each half is counted. */
  batch: (batch: { events: number; seconds: number; isWritten: boolean }) => void;
  /** Counts committed events and deliveries, without repetitions of an idempotency key. */
  written: (written: { events: number; deliveries: number }) => void;
  /** Counts warnings of published events, by their codes. */
  warned: (codes: readonly string[]) => void;
  /** `read` returns the number of bytes that are queued. */
  watchWaiting: (read: () => number) => void;
};

export function createPublishMetrics(registry: Registry): PublishMetrics {
  const registers = [registry];
  const events = new Counter({
    name: 'halcyon_events_published_total',
    help: 'Events that were published and written',
    registers,
  });
  const deliveries = new Counter({
    name: 'halcyon_deliveries_created_total',
    help: 'Deliveries that were written with their events',
    registers,
  });
  const batches = new Counter({
    name: 'halcyon_publish_batches_total',
    help: 'Batches of events, by whether they were written',
    labelNames: ['result'],
    registers,
  });
  const warnings = new Counter({
    name: 'halcyon_publish_warnings_total',
    help: 'Warnings in the results of published events, by code',
    labelNames: ['code'],
    registers,
  });
  const written = batches.labels('written');
  const failed = batches.labels('failed');
  written.inc(0);
  failed.inc(0);
  const seconds = new Histogram({
    name: 'halcyon_publish_batch_duration_seconds',
    help: 'How long the statements of a batch took',
    buckets: BUCKETS_SECONDS,
    registers,
  });
  const sizes = new Histogram({
    name: 'halcyon_publish_batch_events',
    help: 'How many events shared a batch',
    buckets: BUCKETS_EVENTS,
    registers,
  });
  const readers: (() => number)[] = [];
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_publish_waiting_bytes',
      help: 'Bytes of events that wait for their batch',
      registers,
      collect() {
        this.set(readers.reduce((bytes, read) => bytes + read(), 0));
      },
    }),
  );
  return {
    batch: ({ events: count, seconds: took, isWritten }) => {
      (isWritten ? written : failed).inc();
      seconds.observe(took);
      sizes.observe(count);
    },
    written: (count) => {
      events.inc(count.events);
      deliveries.inc(count.deliveries);
    },
    warned: (codes) => codes.forEach((code) => warnings.inc({ code })),
    watchWaiting: (read) => void readers.push(read),
  };
}
