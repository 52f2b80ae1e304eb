/** The titles of tests as documents name them: `<file> > <title in the source>`. */

/** A title in the source, between its quotes: a test of node:test at the top level of its file, or in a loop there. */
const TEST = /(?<![\w.])test\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1/g;

/** Returns the titles of the tests in a file. A template is returned as it is in the source. */
export function titlesIn(source: string): string[] {
  return [...source.matchAll(TEST)].map(([, , title = '']) => title.replaceAll(/\\(.)/g, '$1'));
}

/** Splits `<file> > <title>`. */
export function splitTestName(named: string): [file: string, title: string] {
  const at = named.indexOf(' > ');
  return [named.slice(0, at), named.slice(at + 3)];
}
