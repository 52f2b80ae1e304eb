/** The settings of what delivers. Every limit has its unit in its name. */
import { randomBytes } from 'node:crypto';
import type { Settings } from './settings/settings.ts';

/** A positive safe integer nobody else has: what this process is called in `worker` and `shard_lease`. */
const processId = (): number => randomBytes(6).readUIntBE(0, 6) + 1;

/**
 * How the time that a stop may take is shared out, ten seconds by itself: one part stops after the other, and none waits longer
 * than its share, be the database away or a receiver silent. What is not done by then is done after the next start.
 */
export const stoppingSettings = (set: Settings) => ({
  requestsMs: 1_500,
  /** Then what is on the wire is broken off, and sent again by the next owner. */
  exchangesMs: set.DELIVERY_DRAIN_MS,
  /** Until the last outcomes are written. */
  recordsMs: 1_000,
  handBackMs: 500,
  mailsMs: 2_000,
  /** Each of the others. */
  othersMs: 250,
  databaseMs: 1_000,
  /** The process ends then, whatever still hangs: nothing that was accepted is lost by it. */
  allMs: 7_000 + set.DELIVERY_DRAIN_MS,
});

/** How many deliveries are under way at once, and who may have how many of them. A connection that waits costs some 20 KB. */
const slotSettings = (set: Settings) => {
  const slots = set.DELIVERY_SLOTS;
  return {
    slots,
    /** More than `slots`, for those that began quick and hang: a fifth of 20,000 endpoints may begin to at once. */
    overdraftSlots: 4 * slots,
    slowAfterMs: 1_000,
    slowSlotsPercent: 25,
    unprovenSlotsPercent: 50,
    freshSlotsPercent: 25,
    retrySlotsPercent: 10,
    storeSlotsPercent: set.DELIVERY_STORE_PERCENT,
    originSlotsPercent: set.DELIVERY_ORIGIN_PERCENT,
    slotsPerLane: 32,
    slotsPerSlowLane: 4,
  };
};

/** When a webhook that fails is switched off: after so many failures in a row, and so long after the first of them. */
const deactivationSettings = (set: Settings) => ({
  deactivateAfterFailures: set.DEACTIVATE_AFTER_FAILURES,
  /** By retry profile: what one delivery is tried for, without the chance in its gaps. */
  deactivateAfterSeconds: Object.freeze({
    hour: set.DEACTIVATE_HOUR_AFTER_SECONDS,
    long: set.DEACTIVATE_LONG_AFTER_SECONDS,
  }),
});

export const deliverySettings = (set: Settings) => {
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
    tallyEveryMs: 2_000,
    tallyRows: 50_000,
    /** What no listener of a held webhook has answered by then ends. */
    unfetchedDays: set.RETENTION_DAYS,
    exchangeTimeoutMs: set.DELIVERY_TIMEOUT_MS,
    /** Tests of webhooks, beside the slots. */
    trialsAtOnce: 8,
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
  });
};
