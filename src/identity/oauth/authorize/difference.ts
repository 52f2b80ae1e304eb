/** Wherein an address differs from the registered one that is nearest to it: told without telling that one. */

/** RFC 3986 Appendix B, the authority taken apart. Read octet for octet: a parser would hide what differs. */
const PARTS = /^(?:([^:/?#]+):)?(?:\/\/(?:([^/?#]*)@)?([^/?#]*?)(?::([0-9]*))?(?=[/?#]|$))?([^?#]*)(\?[^#]*)?(#.*)?$/s;

type Parts = Readonly<Record<'scheme' | 'user-info' | 'host' | 'port' | 'path' | 'query' | 'fragment', string>>;

const partsOf = (uri: string): Parts => {
  const [, scheme = '', user = '', host = '', port = '', path = '', query = '', fragment = ''] = PARTS.exec(uri) ?? [];
  return { scheme, 'user-info': user, host, port, path, query, fragment };
};

const differenceOf = (name: keyof Parts, given: string, registered: string): string => {
  if (given.toLowerCase() === registered.toLowerCase()) return `upper and lower case in the ${name}`;
  if (name === 'path' && (`${given}/` === registered || given === `${registered}/`))
    return 'a slash at the end of the path';
  return `the ${name}`;
};

const differences = (given: string, registered: string): string[] => {
  const [one, other] = [partsOf(given), partsOf(registered)];
  const names = Object.keys(one) as (keyof Parts)[];
  const different = names.filter((name) => one[name] !== other[name]);
  // The same parts and another spelling, such as a colon without a port.
  if (different.length === 0) return ['the spelling'];
  return different.map((name) => differenceOf(name, one[name], other[name]));
};

/** An address on another host is farther away than one that differs in anything else. */
const distance = (different: readonly string[]): number => different.length + (different.includes('the host') ? 10 : 0);

/** The parts in words, such as `the path`; none where nothing is registered. */
export const differenceToNearest = (given: string, registered: readonly string[]): string[] =>
  registered.map((uri) => differences(given, uri)).toSorted((a, b) => distance(a) - distance(b))[0] ?? [];
