/**
 * The consent of an endpoint, which the operator may require before a webhook gets its url, or an app declares one (setting
 * `REQUIRE_WEBHOOK_HANDSHAKE`).
 * A url that a webhook has already is not asked again.
 */
import type { Runtime } from '#runtime/runtime.ts';
import { invalid, type Fault, temporary } from '#core/problem.ts';

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
  /** Asks the endpoint, through the outbound guard; limited per host and per asker: a store by its id, or who declares a url for an app. */
  ask: (url: string, asker: number | string) => Promise<Answered>;
};

const RETRY_AFTER_SECONDS = 5;

type Named = { field: string; label: string };

/** Returns a fault that says what the endpoint has to respond, and nothing of its response but the status. */
function refused(
  { origin, timeoutMs }: Handshake,
  baseUrl: string,
  status: number | undefined,
  { field, label }: Named,
): Fault {
  const isSuccess = status !== undefined && status >= 200 && status <= 299;
  const did =
    status === undefined
      ? `gave no HTTP response within ${timeoutMs / 1_000} seconds`
      : `responded with ${status}${isSuccess ? ' without it' : ''}`;
  const message =
    `${label}: the endpoint has not allowed deliveries. It has to respond to an OPTIONS request with 2xx and the header ` +
    `WebHook-Allowed-Origin: ${origin} (or *), but it ${did}. See ${baseUrl}/docs/receiving#handshake`;
  return { code: 'handshake_failed', message, field };
}

export type HandshakeDeps = Pick<Runtime, 'config'> & { handshake: Handshake | undefined };

/**
 * Asks the endpoint of a new url, if the operator requires it, and returns the fault of one that does not allow deliveries. Throws a 429 or
 * 503 if it cannot be asked now.
 */
export async function consentFaults(
  { handshake, config: { baseUrl } }: HandshakeDeps,
  url: string | null,
  asker: number | string,
  named: Named,
): Promise<Fault[]> {
  if (handshake === undefined || url === null) return [];
  const answered = await handshake.ask(url, asker);
  const { field, label } = named;
  switch (answered.kind) {
    case 'allowed':
      return [];
    case 'refused':
      return [refused(handshake, baseUrl, answered.status, named)];
    case 'no_response':
      return [refused(handshake, baseUrl, undefined, named)];
    case 'blocked':
      return [{ code: 'forbidden_address', message: `${label}: ${answered.why}`, field }];
    case 'limited': {
      const message = `Too many endpoints were asked whether they allow deliveries: wait ${answered.waitSeconds} s`;
      throw temporary(429, { code: 'too_many_requests', message, field }, answered.waitSeconds);
    }
    case 'internal':
    case 'stopping': {
      const message = 'The endpoint could not be asked whether it allows deliveries: try again shortly';
      throw temporary(503, { code: 'unavailable', message, field }, RETRY_AFTER_SECONDS);
    }
  }
}

/** Throws a `Problem` unless the endpoint of the new url of a store's webhook allows deliveries, if the operator requires that. */
export async function requireConsent(deps: HandshakeDeps, url: string | null, storeId: number): Promise<void> {
  const faults = await consentFaults(deps, url, storeId, { field: 'url', label: 'url' });
  if (faults.length > 0) throw invalid(...faults);
}
