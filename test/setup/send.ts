/** One request and its response, sent with undici's `request`: `fetch` takes 0.2 ms of processor time more, a fifth of an API request. */
import { Readable } from 'node:stream';
import { request } from 'undici';

type Sent = {
  method?: string;
  headers?: Readonly<Record<string, string | null>>;
  /** An object of `URLSearchParams` is a form. */
  body?: string | Uint8Array | URLSearchParams | undefined;
};
export type Answer = { status: number; headers: Headers; text: string };

const DEFAULTS = { accept: '*/*', 'user-agent': 'node' };
const FORM = 'application/x-www-form-urlencoded;charset=UTF-8';

function headersOf({ headers = {}, body }: Sent): Record<string, string> {
  const all: Record<string, string> = { ...DEFAULTS, ...(body instanceof URLSearchParams && { 'content-type': FORM }) };
  for (const [name, value] of Object.entries(headers)) {
    if (value === null) continue;
    all[name.toLowerCase()] = value;
  }
  return all;
}

async function ask(url: string, sent: Sent) {
  const { method = 'GET', body } = sent;
  const response = await request(url, {
    method,
    headers: headersOf(sent),
    ...(body !== undefined && { body: body instanceof URLSearchParams ? body.toString() : body }),
  });
  const headers = new Headers();
  for (const [name, values] of Object.entries(response.headers))
    for (const value of [values ?? []].flat()) headers.append(name, value);
  return { status: response.statusCode, headers, body: response.body };
}

/** Follows no redirect, and accepts no compression. */
export async function send(url: string, sent: Sent = {}): Promise<Answer> {
  const { status, headers, body } = await ask(url, sent);
  return { status, headers, text: await body.text() };
}

/** Sends a request for a caller that reads a `Response`; the body of a stream arrives as it is read. */
export async function respond(url: string, sent: Sent = {}): Promise<Response> {
  const { body, ...head } = await ask(url, sent);
  if (head.headers.get('content-type')?.startsWith('text/event-stream') === true)
    return new Response(Readable.toWeb(body), head);
  const text = await body.text();
  return new Response(text === '' ? null : text, head);
}
