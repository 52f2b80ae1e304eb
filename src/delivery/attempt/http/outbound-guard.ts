/**
 * The outbound guard: decides which addresses deliveries may reach. It checks every address to which a host resolves;
 * one forbidden address blocks the host. The socket is opened only to checked addresses, so that a second, different
 * DNS response (DNS rebinding) has no effect.
 */
import type { LookupAddress } from 'node:dns';
import { isIP, BlockList } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Destination, Guard } from '#runtime/runtime.ts';
import type { Resolve } from './resolver.ts';

// Decides which addresses are public: IANA's special-purpose registries, and addresses reserved by clouds. Pure.

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
  // Azure's platform services, which provide the machine's keys.
  '168.63.129.16/32',
];

/** Ranges within global unicast (2000::/3) that are not public or embed an IPv4 address. */
const forbidden6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20', '2620:4f:8000::/48'];

function familyOf(address: string): Family {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

/**
 * One list per family: in a shared list Node applies each rule to IPv4 and to its IPv6 form, so that `::/0`, written
 * for "all of IPv6", would allow 10.0.0.0/8.
 */
export class Networks {
  readonly #lists: Record<Family, BlockList> = { ipv4: new BlockList(), ipv6: new BlockList() };

  /** Throws on an invalid address or network, so that a typing error in a setting is found at the start. */
  constructor(cidrs: readonly string[]) {
    for (const cidr of cidrs) {
      const [network = '', bits] = cidr.split('/');
      const family = familyOf(network);
      const whole = family === 'ipv6' ? 128 : 32;
      this.#lists[family].addSubnet(network, bits === undefined ? whole : Number(bits), family);
    }
  }

  has(address: string): boolean {
    const family = familyOf(address);
    return this.#lists[family].check(address, family);
  }
}

const numbersOf = (groups: string): number[] =>
  groups.split(':').flatMap((group) => (group === '' ? [] : [Number.parseInt(group, 16)]));

/** Returns the eight groups of an IPv6 address in any notation. */
function groupsOf(address: string): number[] {
  const [, before = '', dotted] = /^(.*?)((?:\d+\.){3}\d+)?$/.exec(address) ?? [];
  const [a = 0, b = 0, c = 0, d = 0] = dotted?.split('.').map(Number) ?? [];
  const last = dotted === undefined ? [] : [a * 256 + b, c * 256 + d];
  const [head = '', tail = ''] = before.split('::');
  const [first, rest] = [numbersOf(head), [...numbersOf(tail), ...last]];
  // Without `::` there are eight groups already.
  return [...first, ...Array<number>(8 - first.length - rest.length).fill(0), ...rest];
}

/**
 * RFC 5214 §6.1: ISATAP embeds an IPv4 address after 0000:5efe or 0200:5efe in any network, so no prefix identifies it.
 */
function isIsatap(address: string): boolean {
  const [, , , , fourth = 0, fifth] = groupsOf(address);
  return fifth === 0x5efe && (fourth & ~0x0200) === 0;
}

const blocked4 = new Networks(forbidden4);
const blocked6 = new Networks(forbidden6);
const globalUnicast6 = new Networks(['2000::/3']);

/**
 * Returns whether the address is public. For IPv6 that requires global unicast, which excludes nearly every form that
 * embeds an IPv4 address (mapped, SIIT, NAT64) without listing each.
 */
export function isPublic(address: string): boolean {
  return familyOf(address) === 'ipv4'
    ? !blocked4.has(address)
    : globalUnicast6.has(address) && !blocked6.has(address) && !isIsatap(address);
}

// Recognises the addresses and ports of Halcyon, its database and its proxy: blocked even in networks that the operator
// has allowed.

/** `host` as in the settings: an address, a wildcard address (`0.0.0.0`, `::`), or a name. */
type Listener = { host: string; port: number };

function listOf(addresses: readonly string[]): BlockList {
  const list = new BlockList();
  for (const address of addresses) list.addAddress(address, familyOf(address));
  return list;
}

const loopback = listOf(['::1']);
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
/** Connecting to a wildcard address reaches this machine. */
const unspecified = listOf(['0.0.0.0', '::']);

/** A BlockList also matches the IPv6 form of an IPv4 address, which is correct here: both lead to the same socket. */
const isIn = (list: BlockList, address: string): boolean => list.check(address, familyOf(address));

const isHere = (address: string): boolean => isIn(loopback, address) || isIn(unspecified, address);

/**
 * Returns whether the address belongs to this machine. Read each time, because addresses change and only requests to
 * such ports get here.
 */
function isOfMachine(address: string): boolean {
  const own = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map((one) => one.address));
  return isHere(address) || isIn(listOf(own), address);
}

/**
 * Returns whether `host` may be at the address. A name may resolve differently on another resolver, so its port is
 * blocked in every network that is not public, where a database would be.
 */
function isAt(host: string, address: string): boolean {
  if (host === 'localhost') return isHere(address);
  if (isIP(host) === 0) return !isPublic(address);
  if (isIn(unspecified, host)) return isOfMachine(address);
  const isSame = isIn(listOf([host]), address);
  return isSame || (isIn(loopback, host) && isIn(unspecified, address));
}

/**
 * Returns whether a listener is at this address and port. Other ports of the machine stay reachable: there may be
 * receivers on loopback, such as the demo's.
 */
export function isOwn(listeners: readonly Listener[], address: string, port: number): boolean {
  return listeners.some((listener) => listener.port === port && isAt(listener.host, address));
}

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

export type GuardRules = {
  /** Networks that deliveries may reach although they are not public. */
  allowed?: readonly string[];
  /** Addresses on which Halcyon, its database and its proxy listen. */
  own?: readonly Listener[];
};

function destinationOf(url: string): Destination {
  const { hostname, port, protocol } = new URL(url);
  return { hostname: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (protocol === 'https:' ? 443 : 80) };
}

/** Throws if `allowed` contains an invalid network. */
export function createGuard({ allowed = [], own = [] }: GuardRules, resolve: Resolve): Guard {
  const networks = new Networks(allowed);

  const addressesOf = async ({ hostname, port }: Destination): Promise<readonly LookupAddress[]> => {
    const family = isIP(hostname);
    const addresses = family === 0 ? await resolve(hostname) : [{ address: hostname, family }];
    // Cached addresses are checked again each time.
    for (const { address } of addresses) {
      if (!isPublic(address) && !networks.has(address)) {
        const why = family === 0 ? ': it leads to an address that is not public' : '';
        throw new BlockedAddress(`deliveries may not reach ${hostname}${why}`, address);
      }
      if (isOwn(own, address, port))
        throw new BlockedAddress(`deliveries may not reach port ${port} of ${hostname}: it is Halcyon's own`, address);
    }
    return addresses;
  };

  return {
    addressesOf,
    checkUrl: async (url) => {
      try {
        await addressesOf(destinationOf(url));
      } catch (error) {
        if (error instanceof BlockedAddress) return error.message;
      }
      return null;
    },
  };
}
