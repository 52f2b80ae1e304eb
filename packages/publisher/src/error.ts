/** A fault of an event, as the server reports it; `field` is a path within the event, such as `resource.id`. */
export type Fault = { code: string; message: string; field?: string };

/** Why an event was not published. */
export type PublishErrorCode =
  /** The event is not a JSON object; nothing was sent. */
  | 'invalid_event'
  /** The server refused this event; `faults` has the reasons. */
  | 'refused'
  /** The client has no access: check its id and secret, and that it is trusted. */
  | 'unauthorized'
  /** The server does not have this store. */
  | 'no_store'
  /** The deadline has passed, and the server was not reachable or not able to publish until then. */
  | 'unavailable'
  /** The response is not one of Halcyon: check `baseUrl`, and proxies before the server. */
  | 'unexpected'
  /** The publisher was closed before the event was published. */
  | 'closed';

type Details = { status?: number; faults?: readonly Fault[]; mayBePublished?: boolean };

/** The message is for a log, and contains no secret. */
export class PublishError extends Error {
  override readonly name = 'PublishError';
  readonly code: PublishErrorCode;
  /** The status of the response, if there was one. */
  readonly status: number | undefined;
  readonly faults: readonly Fault[];
  /**
   * False: the event is not published. True: a request with the event had no response that says so; publish the event again only
   * with the `idempotency_key` that it had.
   */
  readonly mayBePublished: boolean;

  constructor(code: PublishErrorCode, message: string, { status, faults = [], mayBePublished = false }: Details = {}) {
    super(message);
    this.code = code;
    this.status = status;
    this.faults = faults;
    this.mayBePublished = mayBePublished;
  }
}

export function closedError(): PublishError {
  return new PublishError('closed', 'The publisher is closed');
}
