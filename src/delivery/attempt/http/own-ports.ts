/** Where Halcyon itself and its database listen: no delivery goes there, also in networks that the operator has allowed. */
import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { familyOf, isPublic } from './networks.ts';

/** `host` as settings write it: an address, one of all of a machine's (`0.0.0.0`, `::`), or a name. */
export type Listener = { host: string; port: number };

const listOf = (addresses: readonly string[]): BlockList => {
  const list = new BlockList();
  for (const address of addresses) list.addAddress(address, familyOf(address));
  return list;
};

const loopback = listOf(['::1']);
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
/** Connecting to "any address" reaches this machine. */
const unspecified = listOf(['0.0.0.0', '::']);

/** A list takes the IPv6 form of an IPv4 address for what it is, which is right here: it leads to the same socket. */
const isIn = (list: BlockList, address: string): boolean => list.check(address, familyOf(address));

const isHere = (address: string): boolean => isIn(loopback, address) || isIn(unspecified, address);

/** Looked for each time: addresses of a machine come and go, and only what asks for a port of ours comes here. */
const isOfMachine = (address: string): boolean => {
  const own = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map((one) => one.address));
  return isHere(address) || isIn(listOf(own), address);
};

/**
 * What a name leads to may change, and the machine may ask others for it than we do: so the port is closed in every network
 * that is not public, where a database would stand.
 */
const isAt = (host: string, address: string): boolean => {
  if (host === 'localhost') return isHere(address);
  if (isIP(host) === 0) return !isPublic(address);
  if (isIn(unspecified, host)) return isOfMachine(address);
  const isSame = isIn(listOf([host]), address);
  return isSame || (isIn(loopback, host) && isIn(unspecified, address));
};

/** Judged by address and port: beside us on loopback there may be receivers, as the demo's is. */
export const isOwn = (listeners: readonly Listener[], address: string, port: number): boolean =>
  listeners.some((listener) => listener.port === port && isAt(listener.host, address));
