/**
 * One fault in a request; `field` names the invalid member. `description` is the `error_description` of a 401 or 403 whose message says
 * more than the specification does.
 */
export type Fault = { code: string; message: string; field?: string; description?: string };

/**
 * Messages quote names from requests, and a request may contain a secret in place of a name. No name of the API is this long,
 * and every token, session id and generated key is.
 */
const SECRETS = /[A-Za-z0-9+/_=-]{40,}/g;
const withoutSecrets = (text: string): string => text.replaceAll(SECRETS, '***');

const cleaned = ({ field, message, ...fault }: Fault): Fault => ({
  ...fault,
  message: withoutSecrets(message),
  ...(field === undefined ? {} : { field: withoutSecrets(field) }),
});

/**
 * An error of the caller or a temporary inability of the service. Any module throws it, and `http/errors.ts` renders the error
 * document. `cause` is only logged and never sent.
 */
export class Problem extends Error {
  readonly status: number;
  readonly faults: readonly Fault[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    faults: Fault | readonly Fault[],
    options: { headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    const faultList = (Array.isArray(faults) ? (faults as readonly Fault[]) : [faults as Fault]).map(cleaned);
    super(
      faultList.map((fault) => fault.message).join('; '),
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = 'Problem';
    this.status = status;
    this.faults = faultList;
    this.headers = options.headers ?? {};
  }
}

/** Returns the fault of a value that the schema allows, but not what it is about. */
export function invalidValue(field: string, message: string): Fault {
  return { code: 'invalid_value', message, field };
}

/** Returns the fault of a member that must be sent; `why` continues the sentence "… is required". */
export function requiredMember(field: string, why: string): Fault {
  return { code: 'required', message: `${field} is required${why}`, field };
}

/** Returns a 400 with the given faults. */
export function invalid(...faults: Fault[]): Problem {
  return new Problem(400, faults);
}

/** Returns a 409: the state of the resource does not allow the request. */
export function conflict(code: string, message: string, headers: Record<string, string> = {}): Problem {
  return new Problem(409, { code, message }, { headers });
}

/** Returns a 429 or 503 after which the client may repeat the request, in that many seconds (RFC 9110 §10.2.3). */
export function temporary(
  status: 429 | 503,
  fault: Fault,
  seconds: number,
  { headers = {}, cause }: { headers?: Record<string, string>; cause?: unknown } = {},
): Problem {
  return new Problem(status, fault, { headers: { ...headers, 'Retry-After': String(seconds) }, cause });
}

/** Returns a 404, which is the same for resources that do not exist and for those of other stores. */
export function notFound(what: string): Problem {
  return new Problem(404, { code: 'not_found', message: `There is no such ${what}, or it is not yours to see` });
}

/** Characters of a reason; the CHECKs of the columns have the same limit. */
export const REASON_LENGTH_MAX = 200;

type Suspended = 'app' | 'account' | 'store';

/** Returns the fault of something suspended; every place that refuses it has this code. */
export function suspensionOf(what: Suspended, reason: string): Fault {
  return { code: `${what}_suspended`, message: `The operator of this service has suspended this ${what}: ${reason}` };
}

export function suspended(what: Suspended, reason: string): Problem {
  return new Problem(403, suspensionOf(what, reason));
}
