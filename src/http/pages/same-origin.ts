/** Whether a request was sent by one of our own pages. */

/**
 * Browsers say where a request comes from: `Sec-Fetch-Site`, else `Origin`. One that says neither counts as from elsewhere,
 * because every browser that can hold our cookie sends one of them. Header names are in lower case.
 */
export const isSameOrigin = (
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  ownOrigin: string,
): boolean => {
  const site = headers['sec-fetch-site'];
  return site === undefined ? headers['origin'] === ownOrigin : site === 'same-origin';
};
