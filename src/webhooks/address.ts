/** Syntax check of a webhook's url. The outbound guard checks the addresses of its host. */

/** Returns why the text is not a valid url of a webhook; undefined if it is valid. */
export function addressFault(url: string): string | undefined {
  // The URL parser removes or reinterprets these characters, so the request would go to another address than the one written.
  if (/[\s\p{Cc}\\]/u.test(url)) return 'must not contain blanks, control characters or backslashes';
  if (!/^https?:\/\/[^/]/i.test(url) || !URL.canParse(url)) return 'must be an absolute http or https address';
  const { username, password, port } = new URL(url);
  // Nothing listens on it, and clients read it as no port.
  if (port === '0') return 'must not have port 0';
  // The parsed URL does not show an empty user-info, so the text is checked as well.
  if (username !== '' || password !== '' || /^https?:\/\/[^/?#]*@/i.test(url)) return 'must not contain user-info';
  if (url.includes('#')) return 'must not contain a fragment';
  return undefined;
}

export function isEncrypted(url: string): boolean {
  return /^https:/i.test(url);
}
