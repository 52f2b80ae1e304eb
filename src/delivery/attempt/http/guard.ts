/**
 * The outbound guard: which addresses a delivery may reach. Every address that a host resolves to is resolveAllowed, one
 * forbidden address refuses the host, and the socket is opened to a resolveAllowed address and no other, so that a second,
 * different DNS answer gains nothing.
 */
import { isIP, type LookupFunction } from 'node:net';
import { isPublic, Networks } from './networks.ts';
import { isOwn, type Listener } from './own-ports.ts';
import type { Resolve } from './resolver.ts';

/** The message is for whoever owns the webhook, so it does not tell where a name of the operator's network leads. */
export class BlockedAddress extends Error {
  /** For the operator. */
  readonly address: string;

  constructor(message: string, address: string) {
    super(message);
    this.address = address;
  }
}

/** Where something is to be sent; an IPv6 address without its brackets. */
type Destination = { hostname: string; port: number };

export type GuardRules = {
  /** Networks that deliveries may reach although they are not public. */
  allowed?: readonly string[];
  /** What listens there is our own. */
  own?: readonly Listener[];
};

export type Guard = {
  /** For `net.connect` to that port: answers resolveAllowed addresses only. */
  lookupFor: (port: number) => LookupFunction;
  /** For addresses that are written as numbers, which no look-up sees. Throws `BlockedAddress`. */
  checkLiteral: (destination: Destination) => void;
  /** Why a webhook may not have this url; null where it may. A name that does not resolve is accepted. */
  checkUrl: (url: string) => Promise<string | null>;
};

const destinationOf = (url: string): Destination => {
  const { hostname, port, protocol } = new URL(url);
  return { hostname: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (protocol === 'https:' ? 443 : 80) };
};

/** Throws on an `allowed` that is no network. */
export const createGuard = ({ allowed = [], own = [] }: GuardRules, resolve: Resolve): Guard => {
  const networks = new Networks(allowed);

  /** Throws `BlockedAddress` when any of a host's addresses is forbidden, however good the others are. */
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

  /** Judged each time it is used, however long ago it was asked for; what is answered is what was resolveAllowed. */
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
};
