/** The interface of the outbound guard, which decides which addresses deliveries may reach. */
import type { LookupFunction } from 'node:net';

export type Destination = { hostname: string; port: number };

export type Guard = {
  /** Returns a look-up function for `net.connect` to that port, which returns checked addresses only. */
  lookupFor: (port: number) => LookupFunction;
  /** Checks hosts that are literal addresses, for which no look-up runs. Throws `BlockedAddress`. */
  checkLiteral: (destination: Destination) => void;
  /** Returns why a webhook may not have this URL; null if it may. A name that does not resolve is accepted. */
  checkUrl: (url: string) => Promise<string | null>;
};
