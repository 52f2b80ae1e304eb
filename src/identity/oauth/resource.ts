/** Resource indicators (RFC 8707): a client names the API that its tokens are for. There is only one. */

/** Returns whether all values of `resource` are the base URL, with or without a trailing slash. An empty value counts as absent. */
export function areOwnResources(values: readonly string[], baseUrl: string): boolean {
  return values.every((value) => value === '' || value === baseUrl || value === `${baseUrl}/`);
}
