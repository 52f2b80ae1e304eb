/**
 * The consent of an endpoint, which the operator may require before a webhook gets its url (setting `REQUIRE_WEBHOOK_HANDSHAKE`).
 * A url that a webhook has already is not asked again.
 */
import { invalid, Problem } from '#core/problem.ts';

/** What an endpoint said, or why it was not asked. */
type Answered =
  | { kind: 'allowed' }
  | { kind: 'refused'; status: number }
  | { kind: 'blocked'; why: string }
  | { kind: 'no_response' | 'internal' | 'stopping' }
  | { kind: 'limited'; waitSeconds: number };

export type Handshake = {
  /** The host name of this service, which the endpoint has to allow. */
  origin: string;
  timeoutMs: number;
  /** Asks the endpoint, through the outbound guard; limited per store and per host. */
  ask: (url: string, storeId: number) => Promise<Answered>;
};

const RETRY_AFTER_SECONDS = 5;

function temporary(status: number, code: string, message: string, seconds: number): Problem {
  return new Problem(status, { code, message, field: 'url' }, { headers: { 'Retry-After': String(seconds) } });
}

/** Returns a 400 that says what the endpoint has to respond, and nothing of its response but the status. */
function refused({ origin, timeoutMs }: Handshake, baseUrl: string, status: number | undefined): Problem {
  const isSuccess = status !== undefined && status >= 200 && status <= 299;
  const did =
    status === undefined
      ? `gave no HTTP response within ${timeoutMs / 1_000} seconds`
      : `responded with ${status}${isSuccess ? ' without it' : ''}`;
  const message =
    `url: the endpoint has not allowed deliveries. It has to respond to an OPTIONS request with 2xx and the header ` +
    `WebHook-Allowed-Origin: ${origin} (or *), but it ${did}. See ${baseUrl}/docs/receiving#handshake`;
  return invalid({ code: 'handshake_failed', message, field: 'url' });
}

/** Asks the endpoint of a new url, if the operator requires it. Throws a `Problem` unless the endpoint allows deliveries. */
export async function requireConsent(
  { handshake, baseUrl }: { handshake: Handshake | undefined; baseUrl: string },
  url: string | null,
  storeId: number,
): Promise<void> {
  if (handshake === undefined || url === null) return;
  const answered = await handshake.ask(url, storeId);
  switch (answered.kind) {
    case 'allowed':
      return;
    case 'refused':
      throw refused(handshake, baseUrl, answered.status);
    case 'no_response':
      throw refused(handshake, baseUrl, undefined);
    case 'blocked':
      throw invalid({ code: 'forbidden_address', message: `url: ${answered.why}`, field: 'url' });
    case 'limited': {
      const message = `Too many endpoints were asked whether they allow deliveries: wait ${answered.waitSeconds} s`;
      throw temporary(429, 'too_many_requests', message, answered.waitSeconds);
    }
    case 'internal':
    case 'stopping': {
      const message = 'The endpoint could not be asked whether it allows deliveries: try again shortly';
      throw temporary(503, 'unavailable', message, RETRY_AFTER_SECONDS);
    }
  }
}
