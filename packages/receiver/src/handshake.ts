import { readerOf, type HeadersLike } from './headers.ts';

/**
 * Returns the headers of a 204 that allows deliveries, or undefined: then respond with 405, or as you respond to other OPTIONS
 * requests. `allowedOrigin` is the host name of the service that may send, or `*` (CloudEvents, "HTTP 1.1 Web Hooks for Event
 * Delivery", section 4).
 */
export function handshakeHeaders(asked: {
  headers: HeadersLike;
  allowedOrigin: string | undefined;
}): Record<string, string> | undefined {
  const origin = readerOf(asked.headers).text('webhook-request-origin') ?? '';
  const { allowedOrigin = '' } = asked;
  if (origin === '' || allowedOrigin === '') return undefined;
  if (allowedOrigin !== '*' && origin.toLowerCase() !== allowedOrigin.toLowerCase()) return undefined;
  return { Allow: 'POST', 'WebHook-Allowed-Origin': allowedOrigin, 'WebHook-Allowed-Rate': '*' };
}
