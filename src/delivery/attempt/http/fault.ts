/** Whose fault it was: what an error of Node, undici or OpenSSL says of an exchange. Pure. */
import { errors } from 'undici';
import { BlockedAddress } from './guard.ts';
import type { Outcome, Phase } from './outcome.ts';

/** The answer's head, or the 1xx before it, went beyond their limits. */
export class HeadTooLarge extends Error {}

/** All that came of an answer, its framing included, goes beyond what is read. */
export class AnswerTooLong extends Error {}

type ErrorClass = 'internal' | 'dns' | 'connect' | 'tls' | 'lost' | 'late' | 'large' | 'malformed';

/**
 * What a code says. `lost`: the connection is gone, and the phase tells where; `late`: so is the time. A code that is not
 * listed is `lost`.
 */
const ERROR_CODES: readonly (readonly [errorClass: ErrorClass, codes: string])[] = [
  // The name does not exist, has no address, or is none: getaddrinfo(3) and c-ares ("Error codes" of node:dns).
  ['dns', 'ENOTFOUND ENODATA ENONAME EBADNAME EAI_NONAME EAI_NODATA EAI_ADDRFAMILY'],
  // The resolver, or our way of asking it. A SERVFAIL may be the fault of the name's own servers: nobody can tell.
  [
    'internal',
    'EAI_AGAIN EAI_FAIL EAI_SYSTEM EAI_MEMORY EAI_OVERFLOW EAI_CANCELED EAI_BADFLAGS EAI_BADHINTS EAI_FAMILY',
  ],
  ['internal', 'EAI_SERVICE EAI_SOCKTYPE EAI_PROTOCOL ESERVFAIL EREFUSED ETIMEOUT EFORMERR ENOTIMP EBADRESP EBADQUERY'],
  ['internal', 'EBADFAMILY EBADSTR EBADFLAGS EBADHINTS ECANCELLED EDESTRUCTION EFILE ENOTINITIALIZED ELOADIPHLPAPI'],
  ['internal', 'EADDRGETNETWORKPARAMS'],
  // Our machine: descriptors, ports, memory, its own firewall (EPERM, EACCES), its interface, its missing IPv6.
  ['internal', 'EMFILE ENFILE ENOBUFS ENOMEM EADDRNOTAVAIL EADDRINUSE EAGAIN EPERM EACCES ENETDOWN EAFNOSUPPORT'],
  ['internal', 'EPROTONOSUPPORT OUT_OF_MEM ERR_MEMORY_ALLOCATION_FAILED'],
  // What we asked for is nothing that can be asked for.
  [
    'internal',
    'UND_ERR_INVALID_ARG UND_ERR_INVALID_RETURN_VALUE UND_ERR_REQ_CONTENT_LENGTH_MISMATCH UND_ERR_NOT_SUPPORTED',
  ],
  ['internal', 'UND_ERR_DESTROYED UND_ERR_CLOSED UND_ERR_ABORT UND_ERR_ABORTED UND_ERR_WASM_NOT_SUPPORTED'],
  ['connect', 'ECONNREFUSED EHOSTUNREACH ENETUNREACH EHOSTDOWN ENONET ENOENT'],
  // X509_verify_cert_error_string(3), as Node names them, beside what begins with one of `TLS_PREFIXES`.
  ['tls', 'EPROTO CRL_SIGNATURE_FAILURE CRL_NOT_YET_VALID CRL_HAS_EXPIRED ERROR_IN_CERT_NOT_BEFORE_FIELD'],
  ['tls', 'ERROR_IN_CERT_NOT_AFTER_FIELD ERROR_IN_CRL_LAST_UPDATE_FIELD ERROR_IN_CRL_NEXT_UPDATE_FIELD'],
  ['tls', 'DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN INVALID_CA INVALID_PURPOSE PATH_LENGTH_EXCEEDED'],
  ['tls', 'HOSTNAME_MISMATCH UNSPECIFIED'],
  ['late', 'ETIMEDOUT ETIME UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT'],
  ['late', 'ERR_TLS_HANDSHAKE_TIMEOUT ERR_SOCKET_CONNECTION_TIMEOUT'],
  ['large', 'UND_ERR_HEADERS_OVERFLOW UND_ERR_RES_EXCEEDED_MAX_SIZE'],
  // undici asserts what it takes for granted of an answer: a status of 099.
  ['malformed', 'ERR_ASSERTION'],
];

const classByCode: ReadonlyMap<string, ErrorClass> = new Map(
  ERROR_CODES.flatMap(([errorClass, codes]) => codes.split(' ').map((code) => [code, errorClass] as const)),
);

const TLS_PREFIXES = /^(?:ERR_TLS_|ERR_SSL_|ERR_OSSL_|CERT_|UNABLE_TO_)/;

/** A resolver that cannot be reached has the code of an endpoint that cannot; c-ares' calls are named `queryA` and so on. */
const isResolverError = (error: Error): boolean =>
  'syscall' in error && typeof error.syscall === 'string' && error.syscall.startsWith('query');

/** Where several addresses were tried, the first one's error: it is the one that the resolver prefers. */
const causeOf = (error: Error): Error =>
  error instanceof AggregateError && error.errors[0] instanceof Error ? causeOf(error.errors[0]) : error;

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : '');

const UNEXPECTED_END = 'Invalid EOF state';

/**
 * What came cannot be read. undici 8 loses the codes (`HPE_…`) of its parser's errors, one of which only says that the
 * connection ended; what is wrong beside a Content-Length it tells of as a body of another length, before there is any.
 */
const isMalformed = (error: Error, phase: Phase): boolean =>
  codeOf(error) === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'
    ? phase !== 'body'
    : error instanceof errors.HTTPParserError && !error.message.includes(UNEXPECTED_END);

const classOf = (error: Error, phase: Phase): ErrorClass => {
  if (error instanceof HeadTooLarge || error instanceof AnswerTooLong) return 'large';
  if (isMalformed(error, phase)) return 'malformed';
  const code = codeOf(error);
  const errorClass = classByCode.get(code) ?? (TLS_PREFIXES.test(code) ? 'tls' : 'lost');
  return isResolverError(error) && errorClass !== 'dns' ? 'internal' : errorClass;
};

/** undici tells of a 101 that nobody asked for by nothing but this. */
const isSwitchingProtocols = (error: Error): boolean =>
  codeOf(error) === 'UND_ERR_SOCKET' && error.message === 'bad upgrade';

/** A connection that is lost while it is opened never was one. */
const lostDuring = (phase: Phase): 'connect' | 'tls' | 'reset' => {
  if (phase === 'dns' || phase === 'connect') return 'connect';
  return phase === 'tls' ? 'tls' : 'reset';
};

/** What became of an exchange that ended with this error in this phase. */
export const outcomeOfError = (error: Error, phase: Phase): Outcome => {
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
      // The name was not looked up in time: by our resolver, or by ourselves.
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
};

/** Whether more came than is read. undici bounds trailers as it does the fields of a head. */
export const isTooLong = (error: Error): boolean =>
  error instanceof AnswerTooLong || error instanceof errors.HeadersOverflowError;

const RESETS: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'UND_ERR_SOCKET']);

/** Whether the connection was closed under the request, which is all that a keep-alive race looks like. */
export const isReset = (error: Error): boolean => RESETS.has(codeOf(error));
