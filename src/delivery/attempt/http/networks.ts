/** Decides which addresses are public: IANA's special-purpose registries, and addresses reserved by clouds. Pure. */
import { BlockList, isIP } from 'node:net';

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

export function familyOf(address: string): Family {
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
