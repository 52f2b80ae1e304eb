/** Limits of deliveries, allowed destinations, and auto-disable. */
import { networkList, whole } from './kind.ts';

export const DELIVERY = {
  OUTBOUND_ALLOW: networkList(
    '–, demo: loopback',
    'networks that deliveries may reach although they are not public: see [below](#where-deliveries-may-go)',
  ),
  DELIVERY_SLOTS: whole(
    1_024,
    [4, 10_000],
    'exchanges at once in one process; a quarter is for endpoints that are slow ([the budget](delivery-states.md#the-budget-who-may-have-one-more-exchange)). Endpoints that begin to hang all at once may have up to four times as many more, some 20 KB each',
  ),
  DELIVERY_STORE_PERCENT: whole(50, [1, 100], 'what one store may have of the slots'),
  DELIVERY_ORIGIN_PERCENT: whole(25, [1, 100], 'what all webhooks to one origin together may have of the slots'),
  DELIVERY_TIMEOUT_MS: whole(30_000, [100, 300_000], 'for one whole exchange; opening its connection has 10 s of that'),
  DELIVERY_DRAIN_MS: whole(
    2_500,
    [0, 300_000],
    'how long a stop waits for exchanges that are under way; then they are broken off, and sent again after the next start. It ends with the last of them, so `DELIVERY_TIMEOUT_MS` breaks off none; a stop may take 7 s more than this',
  ),
  DELIVERY_IDLE_SOCKETS: whole(
    2_000,
    [1, 100_000],
    'connections to endpoints that one process keeps open while nobody uses them, 20 s each; beside them and those in use count file descriptors (`ulimit -n`)',
  ),
  DEACTIVATE_AFTER_FAILURES: whole(
    12,
    [1, 10_000],
    'so many failed attempts of a webhook in a row, and as long as the next two say, switch it off',
  ),
  DEACTIVATE_HOUR_AFTER_SECONDS: whole(
    3_600,
    [1, 31_536_000],
    'how long after the first failure in the row, for the retry profile `hour`',
  ),
  DEACTIVATE_LONG_AFTER_SECONDS: whole(272_105, [1, 31_536_000], 'the same for the profile `long`'),
  DELIVERY_LEASE_MS: whole(5_000, [500, 600_000], 'how long a silent worker keeps its shards'),
  SNAPSHOT_CHECK_MS: whole(
    60_000,
    [10, 3_600_000],
    'how often a process that delivers looks for stores whose day is over, to count their recurring revenue',
  ),
};
