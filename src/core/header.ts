/** What may stand in the header of a request, and which names there are not for others to choose. Pure. */

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Printable ASCII: what RFC 9110 §5.5 lets a new field send. */
const VALUE = /^[\x20-\x7e]*$/;

/** What the delivery sets itself, what frames or steers the connection, and what a receiver takes as a credential. */
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

export const isHeaderName = (name: string): boolean => TOKEN.test(name);

export const isHeaderValue = (value: string): boolean => VALUE.test(value);

/** Whether a delivery says something of its own under the name; `prefix` is the operator's, such as `Service`. */
export const isReservedHeader = (name: string, prefix: string): boolean => {
  const lower = name.toLowerCase();
  return reserved.has(lower) || lower.startsWith('webhook-') || lower.startsWith(`${prefix.toLowerCase()}-`);
};

/** A text as a header can carry it: whatever is not printable ASCII percent-encoded, so that it neither ends the line nor throws. */
export const headerText = (text: string): string =>
  VALUE.test(text) ? text : text.toWellFormed().replace(/[^\x20-\x7e]/gu, (character) => encodeURIComponent(character));
