/** Where sign-in may send somebody back to. */

/**
 * A path on this site: `/` and then printable ASCII without a backslash, and no second slash at its start, which
 * browsers read as another host (`//evil.example`, `/\evil.example`). ASCII, because it goes into a header as it is.
 */
const RETURN_PATH = /^\/(?!\/)[\x21-\x5b\x5d-\x7e]*$/;

/** The path if it leads nowhere but here, else undefined. */
export const returnPath = (text: string | null): string | undefined =>
  text !== null && RETURN_PATH.test(text) ? text : undefined;
