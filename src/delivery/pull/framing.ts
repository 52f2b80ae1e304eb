/** Server-sent events as text (WHATWG HTML, "Parsing an event stream"). What they carry is JSON, which has no line ends. */

/** Said first: how long to wait before coming again when the stream broke off, and that it is open. */
export const opening = (retryMs: number): string => `retry: ${retryMs}\n\n`;

/** Nothing to tell, and still there. */
export const COMMENT = ': still here\n\n';

export const eventText = (event: string, data: unknown, id?: number): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
