/** Server-sent events as text (WHATWG HTML, "Parsing an event stream"). Their data is JSON without line breaks. */

/** Returns the start of a stream: the delay after which a client reconnects. */
export function opening(retryMs: number): string {
  return `retry: ${retryMs}\n\n`;
}

/** A comment line that keeps an idle stream open. */
export const COMMENT = ': still here\n\n';

export function eventText(event: string, data: unknown, id?: number): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
