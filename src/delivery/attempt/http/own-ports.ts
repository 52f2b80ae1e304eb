/**
 * Recognises the addresses and ports of Halcyon, its database and its proxy: blocked even in networks that the operator
 * has allowed.
 */
import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { familyOf, isPublic } from './networks.ts';

/** `host` as in the settings: an address, a wildcard address (`0.0.0.0`, `::`), or a name. */
export type Listener = { host: string; port: number };

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
