/**
 * The outbound guard: which addresses a delivery may reach. Every address that a host resolves to is judged, one
 * forbidden address refuses the host, and the socket is opened to a judged address and no other, so that a second,
 * different DNS answer gains nothing.
 */
import { BlockList, isIP, type LookupFunction } from 'node:net';
import type { Resolve } from './resolver.ts';

export class BlockedAddress extends Error {}

type Family = 'ipv4' | 'ipv6';

const forbidden4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '168.63.129.16/32',
];

/** What lies inside the one global unicast block (2000::/3) and is not global unicast, or hides an IPv4 address. */
const forbidden6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20', '2620:4f:8000::/48'];

const add = (list: BlockList, cidr: string): void => {
  const [network = '', bits] = cidr.split('/');
  const family: Family = isIP(network) === 6 ? 'ipv6' : 'ipv4';
  list.addSubnet(network, bits === undefined ? (family === 'ipv6' ? 128 : 32) : Number(bits), family);
};

const listOf = (cidrs: readonly string[]): BlockList => {
  const list = new BlockList();
  for (const cidr of cidrs) add(list, cidr);
  return list;
};

/** Throws on what is not an address or network, so that a typing error in a setting is found at the start. */
export const parseNetworks = (cidrs: readonly string[]): BlockList => listOf(cidrs);

const blocked4 = listOf(forbidden4);
const blocked6 = listOf(forbidden6);
const globalUnicast6 = listOf(['2000::/3']);

/** Whether a delivery may go to this address. IPv6 is forbidden unless it is global unicast, which refuses every form
 * that wraps an IPv4 address (mapped, NAT64, SIIT, ISATAP's local ones) without naming each. */
export const isAllowed = (address: string, allowed: BlockList): boolean => {
  const family: Family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  if (allowed.check(address, family)) return true;
  if (family === 'ipv4') return !blocked4.check(address, 'ipv4');
  return globalUnicast6.check(address, 'ipv6') && !blocked6.check(address, 'ipv6');
};

/** Throws `BlockedAddress` when any of a host's addresses is forbidden, however good the others are. */
export const judgeAll = (hostname: string, addresses: readonly { address: string }[], allowed: BlockList): void => {
  const bad = addresses.find(({ address }) => !isAllowed(address, allowed));
  if (bad === undefined) return;
  const which = bad.address === hostname ? '' : `, where ${hostname} is`;
  throw new BlockedAddress(`deliveries may not reach ${bad.address}${which}`);
};

export type Guard = {
  /** For `net.connect`: answers judged addresses only. */
  lookup: LookupFunction;
  /** For addresses that are written as numbers, which no look-up sees. */
  judgeLiteral: (hostname: string) => void;
  /** Why a webhook may not have this url; null where it may. A name that does not resolve is accepted. */
  judgeUrl: (url: string) => Promise<string | null>;
};

const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, '');

export const createGuard = (allowedNetworks: readonly string[], resolve: Resolve): Guard => {
  const allowed = parseNetworks(allowedNetworks);
  const judge = (hostname: string, addresses: readonly { address: string }[]) => judgeAll(hostname, addresses, allowed);
  /** Judged each time it is used, however long ago it was asked for. */
  const judged = async (hostname: string) => {
    const addresses = await resolve(hostname);
    judge(hostname, addresses);
    return [...addresses];
  };
  return {
    lookup: (hostname, options, callback) => {
      judged(hostname).then(
        (addresses) => {
          const [first] = addresses;
          if (first === undefined) callback(new Error(`${hostname} has no address`), '', 4);
          else if (options.all === true) callback(null, addresses);
          else callback(null, first.address, first.family);
        },
        (error: NodeJS.ErrnoException) => callback(error, '', 4),
      );
    },
    judgeLiteral: (hostname) => {
      const address = bare(hostname);
      if (isIP(address) !== 0) judge(address, [{ address }]);
    },
    judgeUrl: async (url) => {
      const hostname = bare(new URL(url).hostname);
      try {
        if (isIP(hostname) === 0) await judged(hostname);
        else judge(hostname, [{ address: hostname }]);
      } catch (error) {
        if (error instanceof BlockedAddress) return error.message;
      }
      return null;
    },
  };
};
