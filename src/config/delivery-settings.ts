/** The settings of delivery. Every limit has its unit in its name. */
import { randomBytes } from 'node:crypto';
import type { Settings } from './settings/settings.ts';

/** Returns a random positive safe integer that identifies this process in `worker` and `shard_lease`. */
const processId = (): number => randomBytes(6).readUIntBE(0, 6) + 1;

/**
 * Time limits of a graceful stop, ten seconds by default: the parts stop one after the other, each within its limit, even if
 * the database or a receiver does not respond. The rest is done after the next start.
 */
export function stoppingSettings(set: Settings) {
  // A person who stops the demo does not wait for a load balancer.
  const delayMs = (set.SHUTDOWN_DELAY_SECONDS ?? (set.DATABASE_URL === undefined ? 0 : 5)) * 1_000;
  return {
    /** The process serves on while load balancers see that it is not ready. */
    delayMs,
    requestsMs: 1_500,
    /** Running requests are aborted after this time, and the next owner sends them again. */
    exchangesMs: set.DELIVERY_DRAIN_MS,
    /** For writing the last results. */
    recordsMs: 1_000,
    handBackMs: 500,
    mailsMs: 2_000,
    /** For each other part. */
    othersMs: 250,
    databaseMs: 1_000,
    /** The process exits after this time; nothing accepted is lost. */
    allMs: delayMs + 7_000 + set.DELIVERY_DRAIN_MS,
  };
}

/** Slots: how many attempts run at once, in total and per class. A waiting connection costs some 20 KB. */
function slotSettings(set: Settings) {
  const slots = set.DELIVERY_SLOTS;
  return {
    slots,
    /** Beyond `slots`, for attempts that began fast and hang: a fifth of 20,000 endpoints may do so at once. */
    overdraftSlots: 4 * slots,
    slowAfterMs: 1_000,
    slowSlotsPercent: 25,
    newSlotsPercent: 50,
    freshSlotsPercent: 25,
    retrySlotsPercent: 10,
    storeSlotsPercent: set.DELIVERY_STORE_PERCENT,
    originSlotsPercent: set.DELIVERY_ORIGIN_PERCENT,
    slotsPerLane: 32,
    slotsPerSlowLane: 4,
  };
}

/** Disables a webhook after this many consecutive failures that span at least the time below. */
const deactivationSettings = (set: Settings) => ({
  deactivateAfterFailures: set.DEACTIVATE_AFTER_FAILURES,
  /** By retry profile: the span of its retries without jitter. */
  deactivateAfterSeconds: Object.freeze({
    hour: set.DEACTIVATE_HOUR_AFTER_SECONDS,
    long: set.DEACTIVATE_LONG_AFTER_SECONDS,
  }),
});

export function deliverySettings(set: Settings) {
  const leaseMs = set.DELIVERY_LEASE_MS;
  return Object.freeze({
    ...deactivationSettings(set),
    workerId: processId(),
    leaseMs,
    leaseMarginMs: Math.floor(leaseMs / 4),
    beatMs: Math.floor(leaseMs / 5),
    ...slotSettings(set),
    laneQueue: 200,
    endpointsKept: 100_000,
    heldDeliveries: 100_000,
    heldLanes: 10_000,
    bodyCacheBytes: 64 * 1024 * 1024,
    unrecordedLimit: 2_000,
    hourlyStatsEveryMs: 2_000,
    hourlyStatsRows: 50_000,
    /** Deliveries of pull webhooks that no listener has acknowledged end after this time. */
    unfetchedDays: set.RETENTION_DAYS,
    exchangeTimeoutMs: set.DELIVERY_TIMEOUT_MS,
    /** Concurrent test deliveries, in addition to the slots; those of one store do not keep others waiting. */
    testDeliveriesAtOnce: 8,
    testDeliveriesOfStore: 2,
    /** Handshakes with endpoints, in addition to the slots, and their numbers per minute: the burst is one minute's number. */
    handshakesAtOnce: 8,
    handshakesAtOnceOfAsker: 2,
    handshakesAtOnceOfApps: 4,
    handshakeTimeoutMs: 5_000,
    handshakesPerMinuteOfStore: 10,
    handshakesPerMinuteOfHost: 60,
    answerReadBytes: 64 * 1024,
    answerKeptBytes: 16 * 1024,
    connectTimeoutMs: 10_000,
    lookupTimeoutMs: 5_000,
    lookupsAtOnce: 1_000,
    lookupKeptMs: 30_000,
    failedLookupKeptMs: 10_000,
    addressesKept: 20_000,
    idleSockets: set.DELIVERY_IDLE_SOCKETS,
    idleSocketMs: 20_000,
    connectionAgeMs: 300_000,
    tlsSessions: 4_000,
    stopping: stoppingSettings(set),
    allowedNetworks: set.OUTBOUND_ALLOW,
    outboundProxy: set.OUTBOUND_PROXY,
  });
}
