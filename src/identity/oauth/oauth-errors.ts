/**
 * All errors of the protocol. The texts are constants, so that no response can echo a secret, and use only the characters
 * of RFC 6749 §5.2 (`error_description`: %x20-21 / %x23-5B / %x5D-7E).
 */
import { jsonAnswer } from '#http/answers.ts';
import type { ProblemAnswer } from '#http/route.ts';
import type { Problem } from '#core/problem.ts';

export type Fault = { error: string; description: string };

const faultOf = (error: string, description: string): Fault => ({ error, description });

const REPEATED = 'A parameter is given more than once';

/** Errors that /authorize shows as a page, because the redirect address is not verified to be the client's. */
export const refusals = {
  noClientId: faultOf('invalid_client', 'No client id supplied'),
  unknownClient: faultOf('invalid_client', 'The client id supplied is invalid'),
  suspendedClient: faultOf('unauthorized_client', 'The operator of this service has suspended this app'),
  redirectUriMismatch: faultOf(
    'redirect_uri_mismatch',
    'The redirect_uri supplied is not one that is registered for this client',
  ),
  repeated: faultOf('invalid_request', REPEATED),
} as const;

/** Returns the error of a metadata document, which /authorize shows as a page. `why` is the end of a sentence. */
export function unusableDocument(why: string): Fault {
  return faultOf('invalid_client', `The metadata document of this client cannot be used: ${toErrorDescription(why)}`);
}

/**
 * Errors that /authorize sends to the client's redirect address (RFC 6749 §4.1.2.1, with the literals of the API
 * contract).
 */
export const rejections = {
  repeated: refusals.repeated,
  responseType: faultOf('invalid_request', 'Invalid or missing response type'),
  noScope: faultOf('invalid_client', 'This application requires you specify a scope parameter'),
  unsupportedScope: faultOf('invalid_scope', 'An unsupported scope was requested'),
  unregisteredScope: faultOf('invalid_scope', 'This application is not registered for a scope that it requested'),
  // RFC 8707 §2.
  invalidTarget: faultOf('invalid_target', 'The resource must be the base URL of this API'),
  noState: faultOf('invalid_request', 'The state parameter is required'),
  unreadableState: faultOf('invalid_request', 'The state parameter is not valid UTF-8 text'),
  responseMode: faultOf('invalid_request', 'The response_mode must be query'),
  noChallenge: faultOf(
    'invalid_request',
    'A public client must send a code_challenge with code_challenge_method S256 (PKCE)',
  ),
  requiredChallenge: faultOf(
    'invalid_request',
    'This client must send a code_challenge with code_challenge_method S256 (PKCE)',
  ),
  challenge: faultOf(
    'invalid_request',
    'The code_challenge must be 43 base64url characters with code_challenge_method S256',
  ),
  accessDenied: faultOf('access_denied', 'The user denied access to your application'),
} as const;

export type TokenFault = Fault & { status: 400 | 401 | 429 };

const badRequest = (error: string, description: string): TokenFault => ({ status: 400, error, description });
const invalidRequest = (description: string) => badRequest('invalid_request', description);
const invalidGrant = (description: string) => badRequest('invalid_grant', description);

/** Errors of the token endpoint (RFC 6749 §5.2), shared by /revoke and /introspect. */
export const tokenErrors = {
  notAForm: invalidRequest('Send the parameters as application/x-www-form-urlencoded'),
  repeated: invalidRequest(REPEATED),
  twoMethods: invalidRequest('Authenticate in one way: by the Authorization header or in the body, not by both'),
  twoClientIds: invalidRequest('The client_id in the body is not the one in the Authorization header'),
  invalidClient: { ...faultOf('invalid_client', 'Client authentication failed'), status: 401 },
  guessing: {
    ...faultOf('invalid_client', 'Client authentication failed too often from this address; try again later'),
    status: 429,
  },
  suspendedClient: { ...refusals.suspendedClient, status: 400 },
  // After an invalid_grant clients forget the refresh token, which is valid again after the suspension.
  suspendedStore: badRequest('unauthorized_client', 'The operator of this service has suspended this store'),
  noGrantType: invalidRequest('The grant_type parameter is required'),
  unsupportedGrantType: badRequest(
    'unsupported_grant_type',
    'The grant_type must be authorization_code, refresh_token, client_credentials or urn:ietf:params:oauth:grant-type:device_code',
  ),
  noChallenge: invalidGrant('The code was asked for without a code_challenge, which a public client needs'),
  unauthorizedClient: badRequest('unauthorized_client', 'This client may not use this grant_type'),
  invalidScope: badRequest('invalid_scope', 'The scope must be the one that was granted'),
  invalidTarget: { ...rejections.invalidTarget, status: 400 },
  noCode: invalidRequest('The code parameter is required'),
  // One text for an unknown code and for another client's code, so that the holder of a stolen code learns nothing.
  unknownCode: invalidGrant('The authorization code is invalid'),
  noRedirectUri: invalidRequest('The redirect_uri parameter is required'),
  otherRedirectUri: invalidGrant('The redirect_uri is not the one that the code was sent to'),
  wrongVerifier: invalidGrant('The code_verifier does not fit the code_challenge'),
  usedCode: invalidGrant('The authorization code has already been used'),
  revokedGrant: invalidGrant('The access that this code stands for has been revoked'),
  expiredCode: invalidGrant('The authorization code has expired'),
  // RFC 8628 §3.5.
  noDevice: invalidRequest('The device_code parameter is required'),
  unknownDevice: invalidGrant('The device code is invalid'),
  usedDevice: invalidGrant('The device code has already been used'),
  authorizationPending: badRequest(
    'authorization_pending',
    'The user has not decided yet; ask again after the interval',
  ),
  slowDown: badRequest('slow_down', 'The device asks too often; wait 5 seconds longer between requests from now on'),
  deviceDenied: { ...rejections.accessDenied, status: 400 },
  expiredDevice: badRequest('expired_token', 'The device code has expired; start again'),
  tooManyDevices: {
    ...faultOf('invalid_request', 'Too many device codes were requested from this address; try again later'),
    status: 429,
  },
  // RFC 6749 §3.3, which RFC 8628 §3.1 refers to.
  noScope: badRequest('invalid_scope', 'The scope parameter is required'),
  unsupportedScope: { ...rejections.unsupportedScope, status: 400 },
  unregisteredScope: { ...rejections.unregisteredScope, status: 400 },
  noRefreshToken: invalidRequest('The refresh_token parameter is required'),
  invalidRefreshToken: invalidGrant('The refresh token is invalid, expired or revoked'),
  noToken: invalidRequest('The token parameter is required'),
} as const satisfies Record<string, TokenFault>;

/** The steps of a protocol endpoint throw it; `answeringRefusals` (protocol-requests.ts) turns it into a response. */
export class TokenRefusal extends Error {
  override readonly name = 'TokenRefusal';
  readonly fault: TokenFault;
  readonly headers: Readonly<Record<string, string>>;

  constructor(fault: TokenFault, headers: Readonly<Record<string, string>> = {}) {
    super(fault.description);
    this.fault = fault;
    this.headers = headers;
  }
}

/** Returns the text with the characters replaced that `error_description` may not contain (RFC 6749 §5.2). */
export function toErrorDescription(text: string): string {
  return text.replaceAll('"', "'").replace(/[^\x20-\x21\x23-\x5b\x5d-\x7e]/g, '?');
}

function errorOf({ status, faults }: Problem): string {
  // Errors of a bearer token: `invalid_token`, `insufficient_scope` (RFC 6750 §3.1).
  if (status === 401 || status === 403) return faults[0]?.code ?? 'invalid_request';
  if (status < 500) return 'invalid_request';
  return status === 503 ? 'temporarily_unavailable' : 'server_error';
}

/**
 * Responds to a Problem raised outside a protocol endpoint's own checks: an unreadable body is `invalid_request`, an
 * unavailable database a 503 `temporarily_unavailable` (a code of RFC 6749 §4.1.2.1, which §5.2 lacks).
 */
export const protocolProblem: ProblemAnswer = (problem) => {
  const { status } = problem;
  const error = errorOf(problem);
  return jsonAnswer(status, { error, error_description: toErrorDescription(problem.message) }, problem.headers);
};
