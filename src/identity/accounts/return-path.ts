/** Validates the path that sign-in redirects to. */

/**
 * A path on this site: `/`, then printable ASCII without a backslash. A second slash at the start is rejected, because
 * browsers read it as another host (`//evil.example`, `/\evil.example`). Only ASCII, because it is written to a header unchanged.
 */
const RETURN_PATH = /^\/(?!\/)[\x21-\x5b\x5d-\x7e]*$/;

/** Returns the path if it stays on this site, otherwise undefined. */
export function returnPath(text: string | null): string | undefined {
  return text !== null && RETURN_PATH.test(text) ? text : undefined;
}
