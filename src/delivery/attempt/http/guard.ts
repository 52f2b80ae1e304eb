/**
 * The outbound guard: decides which addresses deliveries may reach. It checks every address to which a host resolves;
 * one forbidden address blocks the host. The socket is opened only to checked addresses, so that a second, different
 * DNS response (DNS rebinding) has no effect.
 */
import { isIP, type LookupFunction } from 'node:net';
import { isPublic, Networks } from './networks.ts';
import { isOwn, type Listener } from './own-ports.ts';
import type { Resolve } from './resolver.ts';

/**
 * The message is shown to the owner of the webhook, so it does not reveal the address of a name in the operator's
 * network.
 */
export class BlockedAddress extends Error {
  /** For the operator only. */
  readonly address: string;

  constructor(message: string, address: string) {
    super(message);
    this.address = address;
  }
}

/** A target of a request; an IPv6 address has no brackets. */
type Destination = { hostname: string; port: number };

export type GuardRules = {
  /** Networks that deliveries may reach although they are not public. */
  allowed?: readonly string[];
  /** Addresses on which Halcyon, its database and its proxy listen. */
  own?: readonly Listener[];
};

export type Guard = {
  /** Returns a look-up function for `net.connect` to that port, which returns checked addresses only. */
  lookupFor: (port: number) => LookupFunction;
  /** Checks hosts that are literal addresses, for which no look-up runs. Throws `BlockedAddress`. */
  checkLiteral: (destination: Destination) => void;
  /** Returns why a webhook may not have this URL; null if it may. A name that does not resolve is accepted. */
  checkUrl: (url: string) => Promise<string | null>;
};

function destinationOf(url: string): Destination {
  const { hostname, port, protocol } = new URL(url);
  return { hostname: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (protocol === 'https:' ? 443 : 80) };
}

/** Throws if `allowed` contains an invalid network. */
export function createGuard({ allowed = [], own = [] }: GuardRules, resolve: Resolve): Guard {
  const networks = new Networks(allowed);

  /** Throws `BlockedAddress` if any of the host's addresses is forbidden. */
  const check = ({ hostname, port }: Destination, addresses: readonly { address: string }[]): void => {
    for (const { address } of addresses) {
      const isAllowed = isPublic(address) || networks.has(address);
      if (!isAllowed) {
        const why = address === hostname ? '' : ': it leads to an address that is not public';
        throw new BlockedAddress(`deliveries may not reach ${hostname}${why}`, address);
      }
      if (isOwn(own, address, port))
        throw new BlockedAddress(`deliveries may not reach port ${port} of ${hostname}: it is Halcyon's own`, address);
    }
  };

  /** Resolves the host and checks its addresses; cached addresses are checked again each time. */
  const resolveAllowed = async (destination: Destination) => {
    const addresses = await resolve(destination.hostname);
    check(destination, addresses);
    return [...addresses];
  };

  const checkLiteral = (destination: Destination): void => {
    if (isIP(destination.hostname) !== 0) check(destination, [{ address: destination.hostname }]);
  };

  return {
    lookupFor: (port) => (hostname, options, callback) => {
      resolveAllowed({ hostname, port }).then(
        (addresses) => {
          const [first] = addresses;
          if (first === undefined) callback(new Error(`${hostname} has no address`), '', 4);
          else if (options.all === true) callback(null, addresses);
          else callback(null, first.address, first.family);
        },
        (error: NodeJS.ErrnoException) => callback(error, '', 4),
      );
    },
    checkLiteral,
    checkUrl: async (url) => {
      const destination = destinationOf(url);
      try {
        checkLiteral(destination);
        if (isIP(destination.hostname) === 0) await resolveAllowed(destination);
      } catch (error) {
        if (error instanceof BlockedAddress) return error.message;
      }
      return null;
    },
  };
}
