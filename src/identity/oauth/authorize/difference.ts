/** Describes how a redirect address differs from the nearest registered one, without revealing the registered one. */

/** RFC 3986 Appendix B, with the authority split. Not a URL parser, which would normalize differences away. */
const PARTS = /^(?:([^:/?#]+):)?(?:\/\/(?:([^/?#]*)@)?([^/?#]*?)(?::([0-9]*))?(?=[/?#]|$))?([^?#]*)(\?[^#]*)?(#.*)?$/s;

type Parts = Readonly<Record<'scheme' | 'user-info' | 'host' | 'port' | 'path' | 'query' | 'fragment', string>>;

function partsOf(uri: string): Parts {
  const [, scheme = '', user = '', host = '', port = '', path = '', query = '', fragment = ''] = PARTS.exec(uri) ?? [];
  return { scheme, 'user-info': user, host, port, path, query, fragment };
}

function differenceOf(name: keyof Parts, received: string, registered: string): string {
  if (received.toLowerCase() === registered.toLowerCase()) return `upper and lower case in the ${name}`;
  if (name === 'path' && (`${received}/` === registered || received === `${registered}/`))
    return 'a slash at the end of the path';
  return `the ${name}`;
}

function differences(received: string, registered: string): string[] {
  const [one, other] = [partsOf(received), partsOf(registered)];
  const names = Object.keys(one) as (keyof Parts)[];
  const different = names.filter((name) => one[name] !== other[name]);
  // Equal parts, but a different spelling, such as a colon without a port.
  if (different.length === 0) return ['the spelling'];
  return different.map((name) => differenceOf(name, one[name], other[name]));
}

/** Ranks a different host as farther away than any other difference. */
const distance = (different: readonly string[]): number => different.length + (different.includes('the host') ? 10 : 0);

/** Returns the names of the differing parts, such as `the path`; empty if no address is registered. */
export function differenceToNearest(received: string, registered: readonly string[]): string[] {
  return registered.map((uri) => differences(received, uri)).toSorted((a, b) => distance(a) - distance(b))[0] ?? [];
}
