/** The network of a client, by its address. */
import { isIPv4, isIPv6 } from 'node:net';

/** A dual-stack socket reports the IPv4 peer 192.0.2.1 as `::ffff:c000:201`. */
const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

const IPV6_GROUPS = 8;
const PREFIX_GROUPS = 4;

/**
 * Returns the canonical form of an IPv6 address: lower case, compressed, without a dotted end (RFC 5952, as serialized
 * by the URL standard).
 */
const canonical = (address: string): string => new URL(`http://[${address}]`).hostname.slice(1, -1);

const groupsOf = (text: string): string[] => (text === '' ? [] : text.split(':'));

function ipv4Of(address: string): string | undefined {
  const [, high, low] = MAPPED.exec(address) ?? [];
  if (high === undefined || low === undefined) return undefined;
  const bytes = Buffer.from(high.padStart(4, '0') + low.padStart(4, '0'), 'hex');
  return bytes.join('.');
}

/**
 * Returns an IPv4 address unchanged and the first 64 bits of an IPv6 address, because a subscriber is assigned at least a
 * whole /64 (RFC 6177 §2). Text that is not an address is returned unchanged.
 */
export function addressPrefix(address: string): string {
  const plain = address.replace(/%.*$/, '');
  if (isIPv4(plain) || !isIPv6(plain)) return plain;
  const written = canonical(plain);
  const [head = '', tail = ''] = written.split('::', 2);
  const [first, last] = [groupsOf(head), groupsOf(tail)];
  const gap = Array.from({ length: IPV6_GROUPS - first.length - last.length }, () => '0');
  return ipv4Of(written) ?? `${[...first, ...gap, ...last].slice(0, PREFIX_GROUPS).join(':')}::/64`;
}
