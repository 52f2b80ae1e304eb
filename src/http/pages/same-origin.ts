/**
 * Returns whether a request was sent by one of our own pages, according to `Sec-Fetch-Site`, else `Origin`. A request
 * with neither is not: every browser that can store our cookie sends one of them. Header names are in lower case.
 */
export function isSameOrigin(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  ownOrigin: string,
): boolean {
  const site = headers['sec-fetch-site'];
  return site === undefined ? headers['origin'] === ownOrigin : site === 'same-origin';
}
