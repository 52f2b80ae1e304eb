/** Where a webhook may send, as far as the text tells; where its host leads is the outbound guard's to judge. */

/** Why this cannot be a webhook's url; undefined where it can. */
export const addressFault = (url: string): string | undefined => {
  // The parser takes these out or takes them for something else, and the endpoint would not be the one that was written.
  if (/[\s\p{Cc}\\]/u.test(url)) return 'must not contain blanks, control characters or backslashes';
  if (!/^https?:\/\/[^/]/i.test(url) || !URL.canParse(url)) return 'must be an absolute http or https address';
  const { username, password } = new URL(url);
  // An empty user-info leaves nothing in the parsed address, so the text is looked at as well.
  if (username !== '' || password !== '' || /^https?:\/\/[^/?#]*@/i.test(url)) return 'must not contain user-info';
  if (url.includes('#')) return 'must not contain a fragment';
  return undefined;
};

export const isEncrypted = (url: string): boolean => /^https:/i.test(url);
