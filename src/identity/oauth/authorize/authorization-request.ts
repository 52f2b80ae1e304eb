/**
 * Validates the authorization request of a client. The page and its form run the same tables of checks, in the order of the
 * API contract.
 */
import type { Runtime } from '#runtime/runtime.ts';
import {
  isClientUrl,
  areOwnResources,
  isValidChallenge,
  readParameters,
  type Parameters,
} from '../protocol-requests.ts';
import { refusals, rejections, type Fault } from '../oauth-errors.ts';
import { findClient } from '../clients/clients-sql.ts';
import type { ConsentClient } from '../registration/metadata-documents.ts';
import { isSameRedirect } from '../redirect-uri.ts';
import { mayAskFor, readScope, type RequestedScope } from '../scope.ts';

/** A request before validation, with the client that it names. */
type Candidate = Parameters & {
  client: ConsentClient | undefined;
  /** Why the metadata document that the client_id names cannot be used. */
  documentFault: Fault | undefined;
  /** The target of the response; undefined if it is not verified to be the client's. */
  redirectUri: string | undefined;
  scope: RequestedScope | undefined;
  baseUrl: string;
};

export type ConsentRequest = {
  client: ConsentClient;
  /** Null for a device, and for the owner of the client. */
  redirectUri: string | null;
  scope: RequestedScope;
  codeChallenge: string | null;
  /** The hash and expiry of its device code, and the user code as it is shown. */
  device?: { hash: Buffer; expires: Date; userCode: string };
  /** The owner of the client is shown the tokens. `ends`: when the access ends; null if it is kept. */
  own?: { ends: Date | null };
};

export type AuthorizationRequest = ConsentRequest & { redirectUri: string; state: string };

export type Received = {
  clientId: string | undefined;
  redirectUri: string | undefined;
  client: ConsentClient | undefined;
};

export type ValidationResult =
  /** The redirect address is not verified to be the client's: the error is shown as a page. */
  | { kind: 'refused'; fault: Fault; received: Received }
  /** The error is sent to the client by redirect. */
  | { kind: 'rejected'; fault: Fault; redirectUri: string; state: string | undefined }
  | { kind: 'valid'; request: AuthorizationRequest };

type Check = (candidate: Candidate) => Fault | undefined;
type Steps = readonly (readonly [what: string, check: Check])[];

const refuseIf =
  (fault: Fault, isWrong: (candidate: Candidate) => boolean): Check =>
  (candidate) =>
    isWrong(candidate) ? fault : undefined;

const checksBeforeRedirect: Steps = [
  ['address once', refuseIf(refusals.repeated, ({ repeated: all }) => all.has('client_id') || all.has('redirect_uri'))],
  ['client_id', refuseIf(refusals.noClientId, ({ values }) => values.client_id === undefined)],
  ['client_id', ({ documentFault }) => documentFault],
  ['client_id', refuseIf(refusals.unknownClient, ({ client }) => client === undefined)],
  ['client_id', refuseIf(refusals.suspendedClient, ({ client }) => client?.suspendedReason != null)],
  ['redirect_uri', refuseIf(refusals.redirectUriMismatch, ({ redirectUri }) => redirectUri === undefined)],
];

const lacksChallenge = ({ values }: Candidate, isRequired: boolean | undefined): boolean =>
  isRequired === true && values.code_challenge === undefined;

const checksWithRedirect: Steps = [
  ['all once', refuseIf(rejections.repeated, ({ repeated }) => repeated.size > 0)],
  ['response_type', refuseIf(rejections.responseType, ({ values }) => values.response_type !== 'code')],
  ['scope', refuseIf(rejections.noScope, ({ values }) => !values.scope?.trim())],
  ['scope', refuseIf(rejections.unsupportedScope, ({ scope }) => scope === undefined)],
  [
    'scope',
    refuseIf(rejections.unregisteredScope, (of) => !of.scope || !mayAskFor(of.client?.scopes ?? null, of.scope)),
  ],
  ['state', refuseIf(rejections.noState, ({ values }) => values.state === undefined)],
  ['state', refuseIf(rejections.unreadableState, ({ unreadable }) => unreadable.has('state'))],
  // A client that asks for another mode would not find the response in the query (OAuth 2.0 Multiple Response Types §2.1).
  ['response_mode', refuseIf(rejections.responseMode, ({ values }) => (values.response_mode ?? 'query') !== 'query')],
  // PKCE: of a public client, whose token request is authenticated by nothing else (RFC 9700 §2.1.1), and if the owner requires it.
  ['code_challenge', refuseIf(rejections.noChallenge, (of) => lacksChallenge(of, of.client?.isPublic))],
  ['code_challenge', refuseIf(rejections.requiredChallenge, (of) => lacksChallenge(of, of.client?.requiresPkce))],
  [
    'code_challenge',
    refuseIf(
      rejections.challenge,
      ({ values }) => !isValidChallenge(values.code_challenge, values.code_challenge_method),
    ),
  ],
  ['resource', refuseIf(rejections.invalidTarget, ({ resources, baseUrl }) => !areOwnResources(resources, baseUrl))],
];

function firstFault(steps: Steps, candidate: Candidate): Fault | undefined {
  return steps
    .values()
    .map(([, check]) => check(candidate))
    .find((fault) => fault !== undefined);
}

/**
 * Returns the redirect address if it is registered, or the only registered one if the request has none (RFC 6749
 * §3.1.2.3). The port of a public client's loopback address may differ.
 */
function chooseRedirect(client: ConsentClient, received: string | undefined): string | undefined {
  const { redirectUris, isPublic } = client;
  if (received === undefined) return redirectUris.length === 1 ? redirectUris[0] : undefined;
  const isRegistered = redirectUris.some((registered) => isSameRedirect(registered, received, isPublic));
  return isRegistered ? received : undefined;
}

/** Returns the client of a metadata document, by its address, or why the document cannot be used. */
export type FindByDocument = (url: string) => Promise<ConsentClient | Fault>;

async function lookUp(runtime: Runtime, rawQuery: string, findByDocument?: FindByDocument): Promise<Candidate> {
  const parameters = readParameters(rawQuery);
  const { client_id: clientId = '', redirect_uri: received, scope } = parameters.values;
  const named = await (isClientUrl(clientId) ? findByDocument?.(clientId) : findClient(runtime.sql, clientId));
  const documentFault = named !== undefined && 'error' in named ? named : undefined;
  const client = named !== undefined && 'clientId' in named ? named : undefined;
  return {
    ...parameters,
    client,
    documentFault,
    redirectUri: client && chooseRedirect(client, received),
    scope: scope === undefined ? undefined : readScope(scope),
    baseUrl: runtime.config.baseUrl,
  };
}

function complete({ values, client, redirectUri, scope }: Candidate): AuthorizationRequest {
  const { state, code_challenge: codeChallenge = null } = values;
  if (client === undefined || redirectUri === undefined || scope === undefined || state === undefined)
    throw new TypeError('The checks accepted an incomplete authorization request');
  return { client, redirectUri, scope, state, codeChallenge };
}

/** Parses and validates the raw query of /authorize (without `?`) with one statement, for the client. */
export async function readAuthorization(
  runtime: Runtime,
  rawQuery: string,
  findByDocument?: FindByDocument,
): Promise<ValidationResult> {
  const candidate = await lookUp(runtime, rawQuery, findByDocument);
  const { values, client, redirectUri, unreadable } = candidate;
  const refusal = firstFault(checksBeforeRedirect, candidate);
  if (refusal !== undefined || redirectUri === undefined) {
    const received = { clientId: values.client_id, redirectUri: values.redirect_uri, client };
    return { kind: 'refused', fault: refusal ?? refusals.redirectUriMismatch, received };
  }
  const fault = firstFault(checksWithRedirect, candidate);
  if (fault === undefined) return { kind: 'valid', request: complete(candidate) };
  return { kind: 'rejected', fault, redirectUri, state: unreadable.has('state') ? undefined : values.state };
}
