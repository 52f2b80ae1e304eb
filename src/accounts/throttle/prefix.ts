/** The part of an address that one guesser has to himself. */
import { isIPv4, isIPv6 } from 'node:net';

/** `::ffff:192.0.2.1` is how a socket that listens on both families shows an IPv4 peer. */
const MAPPED = /^::ffff:(?=[0-9]+\.)/i;

const IPV6_GROUPS = 8;
const PREFIX_GROUPS = 4;

const groupsOf = (text: string): string[] => (text === '' ? [] : text.split(':'));

/**
 * IPv4: the address; IPv6: its first 64 bits, because whoever has one address there has them all (RFC 6177 §2).
 * What is no address is its own prefix.
 */
export const addressPrefix = (address: string): string => {
  const plain = address.replace(MAPPED, '').replace(/%.*$/, '');
  if (isIPv4(plain) || !isIPv6(plain)) return plain;
  const [head = '', tail] = plain.toLowerCase().split('::', 2);
  const [first, last] = [groupsOf(head), groupsOf(tail ?? '')];
  const gap = tail === undefined ? 0 : IPV6_GROUPS - first.length - last.length;
  const groups = [...first, ...Array.from({ length: gap }, () => '0'), ...last];
  return `${groups
    .slice(0, PREFIX_GROUPS)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
};
