/** The settings of what delivers. Every limit has its unit in its name. */
import { randomBytes } from 'node:crypto';
import { integer, networks, type Env } from './env.ts';

/** A positive safe integer nobody else has: what this process is called in `worker` and `shard_lease`. */
const processId = (): number => randomBytes(6).readUIntBE(0, 6) + 1;

/**
 * How the ten seconds that a stop may take are shared out: one part stops after the other, and none waits longer than its
 * share, be the database away or a receiver silent. What is not done by then is done after the next start.
 */
export const stopping = Object.freeze({
  requestsMs: 1_500,
  /** Then what is on the wire is broken off, and sent again by the next owner. */
  exchangesMs: 2_500,
  /** Until the last outcomes are written. */
  recordsMs: 1_000,
  handBackMs: 500,
  mailsMs: 2_000,
  /** Each of the others. */
  othersMs: 250,
  databaseMs: 1_000,
  /** The process ends then, whatever still hangs: nothing that was accepted is lost by it. */
  allMs: 9_500,
});

/** How many deliveries are under way at once, and who may have how many of them. A connection that waits costs some 20 KB. */
const slotSettings = (env: Env) => {
  const slots = integer(env, 'DELIVERY_SLOTS', 1_024, 4, 10_000);
  return {
    slots,
    /** More than `slots`, for those that began quick and hang: a fifth of 20,000 endpoints may begin to at once. */
    overdraftSlots: 4 * slots,
    slowAfterMs: 1_000,
    slowSlotsPercent: 25,
    unprovenSlotsPercent: 50,
    freshSlotsPercent: 25,
    retrySlotsPercent: 10,
    storeSlotsPercent: integer(env, 'DELIVERY_STORE_PERCENT', 50, 1, 100),
    originSlotsPercent: integer(env, 'DELIVERY_ORIGIN_PERCENT', 25, 1, 100),
    slotsPerLane: 32,
    slotsPerSlowLane: 4,
  };
};

/** When a webhook that fails is switched off: after so many failures in a row, and so long after the first of them. */
const deactivationSettings = (env: Env) => ({
  deactivateAfterFailures: integer(env, 'DEACTIVATE_AFTER_FAILURES', 12, 1, 10_000),
  /** By retry profile: what one delivery is tried for, without the chance in its gaps. */
  deactivateAfterSeconds: Object.freeze({
    hour: integer(env, 'DEACTIVATE_HOUR_AFTER_SECONDS', 3_600, 1, 31_536_000),
    long: integer(env, 'DEACTIVATE_LONG_AFTER_SECONDS', 272_105, 1, 31_536_000),
  }),
});

export const deliverySettings = (env: Env) => {
  const leaseMs = integer(env, 'DELIVERY_LEASE_MS', 5_000, 500, 600_000);
  return Object.freeze({
    ...deactivationSettings(env),
    workerId: processId(),
    leaseMs,
    leaseMarginMs: Math.floor(leaseMs / 4),
    beatMs: Math.floor(leaseMs / 5),
    ...slotSettings(env),
    laneQueue: 200,
    endpointsKept: 100_000,
    heldDeliveries: 100_000,
    heldLanes: 10_000,
    bodyCacheBytes: 64 * 1024 * 1024,
    unrecordedLimit: 2_000,
    exchangeTimeoutMs: integer(env, 'DELIVERY_TIMEOUT_MS', 30_000, 100, 300_000),
    answerReadBytes: 64 * 1024,
    answerKeptBytes: 16 * 1024,
    connectTimeoutMs: 10_000,
    lookupTimeoutMs: 5_000,
    lookupsAtOnce: 1_000,
    lookupKeptMs: 30_000,
    failedLookupKeptMs: 10_000,
    addressesKept: 20_000,
    idleSockets: integer(env, 'DELIVERY_IDLE_SOCKETS', 2_000, 1, 100_000),
    idleSocketMs: 20_000,
    connectionAgeMs: 300_000,
    tlsSessions: 4_000,
    stopping,
    allowedNetworks: networks(env, 'OUTBOUND_ALLOW'),
  });
};
