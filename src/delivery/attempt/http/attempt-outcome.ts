/** Outcomes of an exchange with an endpoint: a receiver's 500 is data, not an exception. Pure. */
import type { OutcomeLabel } from '#core/outcome.ts';
import { retryAfterMs } from '#retry-after';
import { errors } from 'undici';
import { BlockedAddress } from './outbound-guard.ts';

export type Reply = { code: number; headers: string; body: string };

/**
 * Phases: DNS look-up, opening the connection, TLS handshake, sending the request (part of it is still in this
 * process), waiting for the response's header section, reading its body.
 */
export type Phase = 'dns' | 'connect' | 'tls' | 'send' | 'answer' | 'body';

export type Outcome =
  | { kind: 'delivered'; reply: Reply }
  /** Any other status. `retryAfterMs` > 0 if a 429 or 503 asked for a pause (RFC 9110 §10.2.3). */
  | { kind: 'refused'; reply: Reply; retryAfterMs: number }
  /** 410: the endpoint is gone permanently. */
  | { kind: 'gone'; reply: Reply }
  /** The time-out of the exchange, or the shorter one of opening a connection, expired. */
  | { kind: 'timed_out'; phase: Exclude<Phase, 'dns'>; reply: null }
  /** `reset`: the connection ended before the response did. */
  | { kind: 'unreachable'; why: 'dns' | 'connect' | 'tls' | 'reset'; reply: null }
  /** The response is not HTTP/1.1 (RFC 9112): another protocol, lines without CR, contradicting lengths. */
  | { kind: 'malformed'; reply: null }
  /** The header section, its 1xx included, exceeds its limit. A long body is only cut, because the status decides. */
  | { kind: 'too_large'; reply: null }
  /** The guard blocks the address, which only the operator may see if the host is a name. */
  | { kind: 'blocked'; why: string; address: string; reply: null }
  /** An error in the environment of this process (resolver, database): never charged to the endpoint. */
  | { kind: 'internal'; why: string; reply: null }
  /** Rendering or sending this delivery threw: not charged to the endpoint either. */
  | { kind: 'threw'; why: string; reply: null };

/** Returns whether the error is internal, so that no attempt is charged. */
export function isInternalError({ kind }: Outcome): boolean {
  return kind === 'internal' || kind === 'threw';
}

/**
 * Returns the label of the attempt's row: `delivered`, `refused`, `timed_out:connect`, `unreachable:dns`, …,
 * `internal`.
 */
export function labelOf(outcome: Outcome): OutcomeLabel {
  switch (outcome.kind) {
    case 'timed_out':
      return `timed_out:${outcome.phase}`;
    case 'unreachable':
      return `unreachable:${outcome.why}`;
    case 'delivered':
    case 'refused':
    case 'gone':
    case 'blocked':
    case 'too_large':
    case 'malformed':
      return outcome.kind;
    case 'internal':
    case 'threw':
      return 'internal';
  }
}

const RETRY_AFTER_STATUSES: ReadonlySet<number> = new Set([429, 503]);

export function kindOfStatus(code: number): 'delivered' | 'gone' | 'refused' {
  if (code >= 200 && code < 300) return 'delivered';
  return code === 410 ? 'gone' : 'refused';
}

/** Returns the outcome of an exchange with a response. */
export function outcomeOfReply(reply: Reply, retryAfter: string | undefined, now: Date): Outcome {
  const kind = kindOfStatus(reply.code);
  if (kind !== 'refused') return { kind, reply };
  const pause = RETRY_AFTER_STATUSES.has(reply.code) ? retryAfterMs(retryAfter, now.getTime()) : 0;
  return { kind, reply, retryAfterMs: pause };
}

/** The header section, or the 1xx responses before it, exceeded their limits. */
export class HeadTooLarge extends Error {}

/** The response, its framing included, exceeded the read limit. */
export class AnswerTooLong extends Error {}

type ErrorClass = 'internal' | 'dns' | 'connect' | 'tls' | 'lost' | 'late' | 'large' | 'malformed';

/**
 * Classes of the error codes of Node, undici and OpenSSL. `lost`: the connection is gone, and the phase says where; `late`: a
 * time-out. A code that is not listed is `lost`.
 */
const ERROR_CODES: readonly (readonly [errorClass: ErrorClass, codes: string])[] = [
  // The name does not exist, has no address, or is invalid: getaddrinfo(3) and c-ares ("Error codes" of node:dns).
  ['dns', 'ENOTFOUND ENODATA ENONAME EBADNAME EAI_NONAME EAI_NODATA EAI_ADDRFAMILY'],
  // The resolver, or the way it is used. A SERVFAIL may be caused by the name's own servers, which cannot be
  // distinguished.
  [
    'internal',
    'EAI_AGAIN EAI_FAIL EAI_SYSTEM EAI_MEMORY EAI_OVERFLOW EAI_CANCELED EAI_BADFLAGS EAI_BADHINTS EAI_FAMILY',
  ],
  ['internal', 'EAI_SERVICE EAI_SOCKTYPE EAI_PROTOCOL ESERVFAIL EREFUSED ETIMEOUT EFORMERR ENOTIMP EBADRESP EBADQUERY'],
  ['internal', 'EBADFAMILY EBADSTR EBADFLAGS EBADHINTS ECANCELLED EDESTRUCTION EFILE ENOTINITIALIZED ELOADIPHLPAPI'],
  ['internal', 'EADDRGETNETWORKPARAMS'],
  // This machine: descriptors, ports, memory, its firewall (EPERM, EACCES), its interface, its missing IPv6.
  ['internal', 'EMFILE ENFILE ENOBUFS ENOMEM EADDRNOTAVAIL EADDRINUSE EAGAIN EPERM EACCES ENETDOWN EAFNOSUPPORT'],
  ['internal', 'EPROTONOSUPPORT OUT_OF_MEM ERR_MEMORY_ALLOCATION_FAILED'],
  ['internal', 'PROXY_UNREACHABLE PROXY_CREDENTIALS'],
  // The request itself is invalid.
  [
    'internal',
    'UND_ERR_INVALID_ARG UND_ERR_INVALID_RETURN_VALUE UND_ERR_REQ_CONTENT_LENGTH_MISMATCH UND_ERR_NOT_SUPPORTED',
  ],
  ['internal', 'UND_ERR_DESTROYED UND_ERR_CLOSED UND_ERR_ABORT UND_ERR_ABORTED UND_ERR_WASM_NOT_SUPPORTED'],
  ['connect', 'ECONNREFUSED EHOSTUNREACH ENETUNREACH EHOSTDOWN ENONET ENOENT PROXY_NO_ROUTE'],
  // X509_verify_cert_error_string(3), as Node names them, in addition to the prefixes in `TLS_PREFIXES`.
  ['tls', 'EPROTO CRL_SIGNATURE_FAILURE CRL_NOT_YET_VALID CRL_HAS_EXPIRED ERROR_IN_CERT_NOT_BEFORE_FIELD'],
  ['tls', 'ERROR_IN_CERT_NOT_AFTER_FIELD ERROR_IN_CRL_LAST_UPDATE_FIELD ERROR_IN_CRL_NEXT_UPDATE_FIELD'],
  ['tls', 'DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN INVALID_CA INVALID_PURPOSE PATH_LENGTH_EXCEEDED'],
  ['tls', 'HOSTNAME_MISMATCH UNSPECIFIED'],
  ['late', 'ETIMEDOUT ETIME UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT'],
  ['late', 'ERR_TLS_HANDSHAKE_TIMEOUT ERR_SOCKET_CONNECTION_TIMEOUT'],
  ['large', 'UND_ERR_HEADERS_OVERFLOW UND_ERR_RES_EXCEEDED_MAX_SIZE'],
  // undici asserts that a status is valid: a status of 099.
  ['malformed', 'ERR_ASSERTION'],
];

const classByCode: ReadonlyMap<string, ErrorClass> = new Map(
  ERROR_CODES.flatMap(([errorClass, codes]) => codes.split(' ').map((code) => [code, errorClass] as const)),
);

const TLS_PREFIXES = /^(?:ERR_TLS_|ERR_SSL_|ERR_OSSL_|CERT_|UNABLE_TO_)/;

/**
 * Returns whether the error comes from the resolver: an unreachable resolver has the same code as an unreachable
 * endpoint, but c-ares' calls are named `queryA` and so on.
 */
const isResolverError = (error: Error): boolean =>
  'syscall' in error && typeof error.syscall === 'string' && error.syscall.startsWith('query');

/** Returns the first error if several addresses were tried: the resolver prefers that address. */
const causeOf = (error: Error): Error =>
  error instanceof AggregateError && error.errors[0] instanceof Error ? causeOf(error.errors[0]) : error;

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : '');

const UNEXPECTED_END = 'Invalid EOF state';

/**
 * Returns whether the response cannot be parsed. undici 8 loses the codes (`HPE_…`) of its parser's errors, one of
 * which only says that the connection ended; it reports an invalid Content-Length as a length mismatch before any body.
 */
const isMalformed = (error: Error, phase: Phase): boolean =>
  codeOf(error) === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'
    ? phase !== 'body'
    : error instanceof errors.HTTPParserError && !error.message.includes(UNEXPECTED_END);

function classOf(error: Error, phase: Phase): ErrorClass {
  if (error instanceof HeadTooLarge || error instanceof AnswerTooLong) return 'large';
  if (isMalformed(error, phase)) return 'malformed';
  const code = codeOf(error);
  const errorClass = classByCode.get(code) ?? (TLS_PREFIXES.test(code) ? 'tls' : 'lost');
  return isResolverError(error) && errorClass !== 'dns' ? 'internal' : errorClass;
}

/** Returns whether the response was an unrequested 101, which undici reports only by this message. */
const isSwitchingProtocols = (error: Error): boolean =>
  codeOf(error) === 'UND_ERR_SOCKET' && error.message === 'bad upgrade';

/** Returns the reason of a lost connection; one lost while it is opened counts as never opened. */
function lostDuring(phase: Phase): 'connect' | 'tls' | 'reset' {
  if (phase === 'dns' || phase === 'connect') return 'connect';
  return phase === 'tls' ? 'tls' : 'reset';
}

/** Returns the outcome of an exchange that failed with this error in this phase. */
export function outcomeOfError(error: Error, phase: Phase): Outcome {
  if (error instanceof BlockedAddress)
    return { kind: 'blocked', why: error.message, address: error.address, reply: null };
  if (isSwitchingProtocols(error))
    return { kind: 'refused', reply: { code: 101, headers: '', body: '' }, retryAfterMs: 0 };
  const cause = causeOf(error);
  const errorClass = classOf(cause, phase);
  switch (errorClass) {
    case 'internal':
      return { kind: 'internal', why: codeOf(cause), reply: null };
    case 'late':
      // The look-up timed out, in the resolver or in this process.
      if (phase === 'dns') return { kind: 'internal', why: codeOf(cause), reply: null };
      return { kind: 'timed_out', phase, reply: null };
    case 'large':
      return { kind: 'too_large', reply: null };
    case 'malformed':
      return { kind: 'malformed', reply: null };
    case 'lost':
      return { kind: 'unreachable', why: lostDuring(phase), reply: null };
    case 'dns':
    case 'connect':
    case 'tls':
      return { kind: 'unreachable', why: errorClass, reply: null };
  }
}

/** Returns whether the response exceeded the read limits. undici limits trailers like header fields. */
export function isTooLong(error: Error): boolean {
  return error instanceof AnswerTooLong || error instanceof errors.HeadersOverflowError;
}

const RESETS: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'UND_ERR_SOCKET']);

/** Returns whether the connection was closed during the request, as in a keep-alive race. */
export function isReset(error: Error): boolean {
  return RESETS.has(codeOf(error));
}
