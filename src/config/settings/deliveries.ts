/** Limits of deliveries, their allowed networks, and auto-disable. */
import { networkList, onOff, proxyUrl, whole } from './kind.ts';

export const DELIVERY = {
  OUTBOUND_ALLOW: networkList(
    '–, demo: loopback',
    'non-public networks that deliveries may reach: see [below](#where-deliveries-may-go)',
  ),
  OUTBOUND_PROXY: proxyUrl(
    'forward proxy through which deliveries reach public addresses, so that endpoints see fixed addresses: see [below](#where-deliveries-may-go)',
  ),
  REQUIRE_WEBHOOK_HANDSHAKE: onOff(
    'a webhook gets a URL only if its endpoint allows deliveries of this service: see [below](#endpoints-that-have-to-agree)',
  ),
  DELIVERY_SLOTS: whole(
    1_024,
    [4, 10_000],
    'concurrent delivery attempts of one process; a quarter of the slots is for slow endpoints ([the budget](delivery-states.md#the-budget-slots-and-quotas)). If many endpoints begin to hang at once, up to four times as many attempts run in addition, with some 20 KB of memory each',
  ),
  DELIVERY_STORE_PERCENT: whole(50, [1, 100], 'maximum share of the slots for one store'),
  DELIVERY_ORIGIN_PERCENT: whole(
    25,
    [1, 100],
    'maximum share of the slots for all webhooks with the same origin (scheme, host and port)',
  ),
  DELIVERY_TIMEOUT_MS: whole(
    30_000,
    [100, 300_000],
    'time limit of an attempt; opening the connection may take at most 10 s of it',
  ),
  DELIVERY_DRAIN_MS: whole(
    2_500,
    [0, 300_000],
    'maximum time for which a stopping process waits for its attempts. Then it aborts the remaining attempts, which are sent again after the next start. With the value of `DELIVERY_TIMEOUT_MS` no attempt is aborted. The whole stop may take 7 s more',
  ),
  DELIVERY_IDLE_SOCKETS: whole(
    2_000,
    [1, 100_000],
    'idle connections to endpoints that one process keeps open, 20 s each. Each connection, idle or in use, needs a file descriptor (`ulimit -n`)',
  ),
  DEACTIVATE_AFTER_FAILURES: whole(
    12,
    [1, 10_000],
    'consecutive failed attempts after which a webhook is disabled, if they span at least `DEACTIVATE_HOUR_AFTER_SECONDS` or `DEACTIVATE_LONG_AFTER_SECONDS`',
  ),
  DEACTIVATE_HOUR_AFTER_SECONDS: whole(
    3_600,
    [1, 31_536_000],
    'minimum time since the first of these failures, for the retry profile `hour`',
  ),
  DEACTIVATE_LONG_AFTER_SECONDS: whole(272_105, [1, 31_536_000], 'the same for the retry profile `long`'),
  DELIVERY_LEASE_MS: whole(
    5_000,
    [500, 600_000],
    'time without a heartbeat after which other workers take over the shards of a worker',
  ),
  SNAPSHOT_CHECK_MS: whole(
    60_000,
    [10, 3_600_000],
    'interval at which a process that delivers looks for stores whose day has ended, to compute their recurring revenue',
  ),
};
