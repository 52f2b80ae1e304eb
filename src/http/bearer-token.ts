/**
 * Returns the bearer token of an `Authorization` header (RFC 6750 §2.1); undefined without the header or with another
 * scheme.
 */
export function bearerTokenOf(authorization: string | undefined): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
}
