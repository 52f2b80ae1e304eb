/** The part of an address that one guesser has to himself. */
import { isIPv4, isIPv6 } from 'node:net';

/** `::ffff:c000:201` is how a socket that listens on both families means the IPv4 peer 192.0.2.1. */
const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

const IPV6_GROUPS = 8;
const PREFIX_GROUPS = 4;

/** The one spelling of an IPv6 address: lower case, compressed, no dotted end (RFC 5952, as the URL standard writes it). */
const canonical = (address: string): string => new URL(`http://[${address}]`).hostname.slice(1, -1);

const groupsOf = (text: string): string[] => (text === '' ? [] : text.split(':'));

const unmapped = (address: string): string | undefined => {
  const [, high, low] = MAPPED.exec(address) ?? [];
  if (high === undefined || low === undefined) return undefined;
  const bytes = Buffer.from(high.padStart(4, '0') + low.padStart(4, '0'), 'hex');
  return bytes.join('.');
};

/**
 * IPv4: the address; IPv6: its first 64 bits, because whoever has one address there has them all (RFC 6177 §2).
 * What is no address is its own prefix.
 */
export const addressPrefix = (address: string): string => {
  const plain = address.replace(/%.*$/, '');
  if (isIPv4(plain) || !isIPv6(plain)) return plain;
  const written = canonical(plain);
  const [head = '', tail = ''] = written.split('::', 2);
  const [first, last] = [groupsOf(head), groupsOf(tail)];
  const gap = Array.from({ length: IPV6_GROUPS - first.length - last.length }, () => '0');
  return unmapped(written) ?? `${[...first, ...gap, ...last].slice(0, PREFIX_GROUPS).join(':')}::/64`;
};
