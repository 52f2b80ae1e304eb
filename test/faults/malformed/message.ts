/** A request as bytes, exactly as given: nothing is added or reordered. */
import type { Header, Fixture, Spot } from './fixture.ts';

export type Message = {
  method: string;
  target: string;
  bytes: Buffer;
  isResource: boolean;
};

export type Parts = {
  spot: Spot;
  method?: string;
  target?: string;
  headers: readonly Header[];
  body?: Buffer;
  contentType?: string;
};

/** A well-framed request: the length is right, whatever the content. A repeated name replaces the earlier one. */
export function messageOf({ app }: Fixture, { spot, headers, body, contentType, ...parts }: Parts): Message {
  const { method = spot.method, target = spot.path } = parts;
  const own: Header[] = [['Host', new URL(app.baseUrl).host]];
  if (contentType !== undefined) own.push(['Content-Type', contentType]);
  if (body !== undefined) own.push(['Content-Length', String(body.length)]);
  // Must not happen by accident: a valid DELETE.
  if (method === 'DELETE') own.push(['If-Match', '"stale"']);
  const lines = [...own, ...headers].map(([name, value]) => `${name}: ${value}`);
  const head = Buffer.from([`${method} ${target} HTTP/1.1`, ...lines, '', ''].join('\r\n'), 'latin1');
  return {
    method,
    target,
    isResource: spot.isResource,
    bytes: body === undefined ? head : Buffer.concat([head, body]),
  };
}

/** Completes a partial request: this is either the rest that the server waits for, or invalid. */
const END = `\r\n\r\n${'~'.repeat(200)}\r\n\r\n`;

/** Raw bytes, then the end of the connection, on a connection of their own. */
export function raw(spot: Spot, text: string): Message {
  return {
    method: spot.method,
    target: spot.path,
    isResource: false,
    bytes: Buffer.from(text + END, 'latin1'),
  };
}
