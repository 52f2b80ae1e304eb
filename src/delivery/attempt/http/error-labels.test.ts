import assert from 'node:assert/strict';
import { constants as osConstants } from 'node:os';
import { test } from 'node:test';
import { errors } from 'undici';
import { BlockedAddress } from './outbound-guard.ts';
import { HeadTooLarge, isReset, outcomeOfError, labelOf, type Phase } from './attempt-outcome.ts';

const failing = (code: string, more: { syscall?: string } = {}): Error =>
  Object.assign(new Error(code), { code, ...more });
function label(error: Error, phase: Phase): string {
  const outcome = outcomeOfError(error, phase);
  return outcome.kind === 'internal' ? 'internal' : labelOf(outcome);
}

/** The label of an error in the phases connect, tls and answer; one word if all three are equal. */
const table: readonly (readonly [codes: string, connect: string, tls?: string, answer?: string])[] = [
  ['ENOTFOUND ENODATA ENONAME EBADNAME EAI_NONAME EAI_NODATA EAI_ADDRFAMILY', 'unreachable:dns'],
  [
    'EAI_AGAIN EAI_FAIL EAI_SYSTEM EAI_MEMORY EAI_OVERFLOW EAI_CANCELED EAI_BADFLAGS EAI_BADHINTS EAI_FAMILY',
    'internal',
  ],
  ['EAI_SERVICE EAI_SOCKTYPE EAI_PROTOCOL', 'internal'],
  ['ESERVFAIL EREFUSED ETIMEOUT EFORMERR ENOTIMP EBADRESP EBADQUERY EBADFAMILY EBADSTR EBADFLAGS', 'internal'],
  ['EBADHINTS ECANCELLED EDESTRUCTION EFILE ENOTINITIALIZED ELOADIPHLPAPI EADDRGETNETWORKPARAMS', 'internal'],
  ['EMFILE ENFILE ENOBUFS ENOMEM EADDRNOTAVAIL EADDRINUSE EAGAIN EPERM EACCES ENETDOWN EAFNOSUPPORT', 'internal'],
  ['EPROTONOSUPPORT OUT_OF_MEM ERR_MEMORY_ALLOCATION_FAILED', 'internal'],
  ['UND_ERR_INVALID_ARG UND_ERR_INVALID_RETURN_VALUE UND_ERR_REQ_CONTENT_LENGTH_MISMATCH', 'internal'],
  ['UND_ERR_NOT_SUPPORTED UND_ERR_DESTROYED UND_ERR_CLOSED UND_ERR_ABORT UND_ERR_ABORTED', 'internal'],
  ['UND_ERR_WASM_NOT_SUPPORTED', 'internal'],
  ['ECONNREFUSED EHOSTUNREACH ENETUNREACH EHOSTDOWN ENONET ENOENT', 'unreachable:connect'],
  ['EPROTO ERR_TLS_CERT_ALTNAME_INVALID ERR_TLS_CERT_ALTNAME_FORMAT ERR_TLS_DH_PARAM_SIZE', 'unreachable:tls'],
  ['ERR_TLS_PROTOCOL_VERSION_CONFLICT ERR_TLS_INVALID_STATE ERR_TLS_RENEGOTIATION_DISABLED', 'unreachable:tls'],
  [
    'ERR_SSL_WRONG_VERSION_NUMBER ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE',
    'unreachable:tls',
  ],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL ERR_OSSL_EVP_UNSUPPORTED', 'unreachable:tls'],
  ['UNABLE_TO_GET_ISSUER_CERT UNABLE_TO_GET_CRL UNABLE_TO_DECRYPT_CERT_SIGNATURE', 'unreachable:tls'],
  ['UNABLE_TO_DECRYPT_CRL_SIGNATURE UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY CERT_SIGNATURE_FAILURE', 'unreachable:tls'],
  ['CRL_SIGNATURE_FAILURE CERT_NOT_YET_VALID CERT_HAS_EXPIRED CRL_NOT_YET_VALID CRL_HAS_EXPIRED', 'unreachable:tls'],
  ['ERROR_IN_CERT_NOT_BEFORE_FIELD ERROR_IN_CERT_NOT_AFTER_FIELD', 'unreachable:tls'],
  ['ERROR_IN_CRL_LAST_UPDATE_FIELD ERROR_IN_CRL_NEXT_UPDATE_FIELD', 'unreachable:tls'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'unreachable:tls'],
  [
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE CERT_CHAIN_TOO_LONG CERT_REVOKED INVALID_CA PATH_LENGTH_EXCEEDED',
    'unreachable:tls',
  ],
  ['INVALID_PURPOSE CERT_UNTRUSTED CERT_REJECTED HOSTNAME_MISMATCH UNSPECIFIED', 'unreachable:tls'],
  [
    'ETIMEDOUT ETIME UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT',
    'timed_out:connect',
    'timed_out:tls',
    'timed_out:answer',
  ],
  ['ERR_TLS_HANDSHAKE_TIMEOUT ERR_SOCKET_CONNECTION_TIMEOUT', 'timed_out:connect', 'timed_out:tls', 'timed_out:answer'],
  ['UND_ERR_HEADERS_OVERFLOW UND_ERR_RES_EXCEEDED_MAX_SIZE', 'too_large'],
  // The connection is gone; the phase decides.
  [
    'ECONNRESET ECONNABORTED EPIPE ENOTCONN ESHUTDOWN EOF',
    'unreachable:connect',
    'unreachable:tls',
    'unreachable:reset',
  ],
  ['UND_ERR_SOCKET UND_ERR_INFO', 'unreachable:connect', 'unreachable:tls', 'unreachable:reset'],
  ['ERR_ASSERTION', 'malformed'],
  ['ENOBODY_KNOWS', 'unreachable:connect', 'unreachable:tls', 'unreachable:reset'],
];

for (const [codes, connect, tls = connect, answer = tls] of table) {
  test(`${codes}: ${[...new Set([connect, tls, answer])].join(', ')}`, () => {
    for (const code of codes.split(' ')) {
      const labels = (['connect', 'tls', 'answer'] as const).map((phase) => label(failing(code), phase));
      assert.deepEqual([code, ...labels], [code, connect, tls, answer]);
    }
  });
}

test('an unknown code, such as a bare errno, is a connection reset', () => {
  const known = new Set(table.flatMap(([codes]) => codes.split(' ')));
  const others = Object.keys(osConstants.errno).filter((code) => !known.has(code));
  assert.ok(others.length > 30);
  for (const code of [...others, '']) assert.equal(label(failing(code), 'answer'), 'unreachable:reset', code);
  assert.equal(label(new Error('without a code'), 'send'), 'unreachable:reset');
});

test('a resolver that refuses the query is not an endpoint that refuses the connection', () => {
  assert.equal(label(failing('ECONNREFUSED', { syscall: 'queryA' }), 'dns'), 'internal');
  assert.equal(label(failing('ENOTFOUND', { syscall: 'queryAaaa' }), 'dns'), 'unreachable:dns');
  assert.equal(label(failing('ECONNREFUSED', { syscall: 'connect' }), 'connect'), 'unreachable:connect');
});

test('of several addresses, the error of the first one counts', () => {
  const all = new AggregateError([failing('ECONNREFUSED'), failing('ETIMEDOUT')]);
  assert.equal(label(all, 'connect'), 'unreachable:connect');
});

test('a forbidden address is blocked, and an endless header section is too large', () => {
  const why = 'deliveries may not reach it';
  const blocked = outcomeOfError(new BlockedAddress(why, '10.0.0.1'), 'dns');
  assert.deepEqual(blocked, { kind: 'blocked', why, address: '10.0.0.1', reply: null });
  assert.equal(label(new HeadTooLarge('many'), 'answer'), 'too_large');
});

test('a response that the parser rejects is malformed, unless it ended early', () => {
  const parserError = (why: string) =>
    new errors.HTTPParserError(`Response does not match the HTTP/1.1 protocol (${why})`);
  assert.equal(label(parserError('Invalid HTTP version'), 'answer'), 'malformed');
  assert.equal(label(parserError('Invalid character in chunk size'), 'body'), 'malformed');
  assert.equal(label(parserError('Invalid EOF state'), 'body'), 'unreachable:reset');
  const otherLength = failing('UND_ERR_RES_CONTENT_LENGTH_MISMATCH');
  assert.equal(label(otherLength, 'answer'), 'malformed');
  assert.equal(label(otherLength, 'body'), 'unreachable:reset');
});

test('only a closed connection looks like a keep-alive race', () => {
  const codes = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'ECONNREFUSED', 'ETIMEDOUT', 'ERR_ASSERTION', 'EMFILE'];
  assert.deepEqual(
    codes.filter((code) => isReset(failing(code))),
    ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'],
  );
});
