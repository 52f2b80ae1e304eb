/** Validates extra headers of deliveries: syntax and reserved names. Pure. */

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Printable ASCII, as RFC 9110 §5.5 recommends for new fields. */
const VALUE = /^[\x20-\x7e]*$/;

/** Headers that the delivery sets itself, that control the connection, and that carry credentials. */
const reserved: ReadonlySet<string> = new Set([
  'accept-encoding',
  'authorization',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'cookie',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
]);

export function isHeaderName(name: string): boolean {
  return TOKEN.test(name);
}

export function isHeaderValue(value: string): boolean {
  return VALUE.test(value);
}

/** Returns whether a delivery sets the header itself; `prefix` is the configured header prefix, such as `Service`. */
export function isReservedHeader(name: string, prefix: string): boolean {
  const lower = name.toLowerCase();
  return reserved.has(lower) || lower.startsWith('webhook-') || lower.startsWith(`${prefix.toLowerCase()}-`);
}

/** Returns the text with all characters other than printable ASCII percent-encoded, so that it is a valid header value. */
export function headerText(text: string): string {
  return VALUE.test(text)
    ? text
    : text.toWellFormed().replace(/[^\x20-\x7e]/gu, (character) => encodeURIComponent(character));
}
