/**
 * What a client asks of /authorize, checked. Both the page and the form that it posts go through the same tables, in the
 * order of the contract.
 */
import type { Queryable } from '#db/pool.ts';
import { isClientId } from '../clients/clients.ts';
import { refusals, rejections, type Fault } from '../errors.ts';
import { isSoundChallenge } from '../pkce.ts';
import { findClient, type Client } from '../clients/clients-sql.ts';
import { isSameRedirect } from '../redirect-uri.ts';
import { readScope, type RequestedScope } from '../scope.ts';
import { readParameters, type Parameters } from './parameters.ts';

/** What is known of the request, sound or not. */
type Asked = Parameters & {
  client: Client | undefined;
  /** Where the answer goes; undefined where nothing says that it is the client's. */
  redirectUri: string | undefined;
  scope: RequestedScope | undefined;
};

export type AuthorizationRequest = {
  client: Client;
  redirectUri: string;
  scope: RequestedScope;
  state: string;
  codeChallenge: string | null;
};

export type Received = { clientId: string | undefined; redirectUri: string | undefined; client: Client | undefined };

export type Reading =
  /** Nothing says that the redirect address is the client's: a page, with what was received. */
  | { kind: 'refused'; fault: Fault; received: Received }
  /** The client hears of it, by redirect. */
  | { kind: 'rejected'; fault: Fault; redirectUri: string; state: string | undefined }
  | { kind: 'asked'; request: AuthorizationRequest };

type Check = (asked: Asked) => Fault | undefined;
type Steps = readonly (readonly [what: string, check: Check])[];

const addressOnce: Check = ({ repeated }) =>
  repeated.has('client_id') || repeated.has('redirect_uri') ? refusals.repeated : undefined;

const clientSupplied: Check = ({ given }) => (given.client_id === undefined ? refusals.noClientId : undefined);

const clientKnown: Check = ({ client }) => (client === undefined ? refusals.unknownClient : undefined);

const redirectRegistered: Check = ({ redirectUri }) =>
  redirectUri === undefined ? refusals.redirectUriMismatch : undefined;

const everythingOnce: Check = ({ repeated }) => (repeated.size > 0 ? rejections.repeated : undefined);

const responseTypeCode: Check = ({ given }) => (given.response_type === 'code' ? undefined : rejections.responseType);

const scopeSupplied: Check = ({ given }) => (given.scope?.trim() ? undefined : rejections.noScope);

const scopeSupported: Check = ({ scope }) => (scope === undefined ? rejections.unsupportedScope : undefined);

const stateSupplied: Check = ({ given }) => (given.state === undefined ? rejections.noState : undefined);

const stateReadable: Check = ({ unreadable }) => (unreadable.has('state') ? rejections.unreadableState : undefined);

/** A public client has nothing else that proves it is the one that asked (RFC 9700 §2.1.1). */
const challengeSupplied: Check = ({ client, given }) =>
  client?.isPublic === true && given.code_challenge === undefined ? rejections.noChallenge : undefined;

const challengeSound: Check = ({ given }) =>
  isSoundChallenge(given.code_challenge, given.code_challenge_method) ? undefined : rejections.challenge;

// oxfmt-ignore
const beforeTrust: Steps = [
  ['address once',  addressOnce       ],
  ['client_id',     clientSupplied    ],
  ['client_id',     clientKnown       ],
  ['redirect_uri',  redirectRegistered],
];

// oxfmt-ignore
const afterTrust: Steps = [
  ['all once',       everythingOnce   ],
  ['response_type',  responseTypeCode ],
  ['scope',          scopeSupplied    ],
  ['scope',          scopeSupported   ],
  ['state',          stateSupplied    ],
  ['state',          stateReadable    ],
  ['code_challenge', challengeSupplied],
  ['code_challenge', challengeSound   ],
];

const firstFault = (steps: Steps, asked: Asked): Fault | undefined => {
  for (const [, check] of steps) {
    const fault = check(asked);
    if (fault !== undefined) return fault;
  }
  return undefined;
};

/** The only registered address where none is given (RFC 6749 §3.1.2.3); public clients' loopback ports are free. */
const chooseRedirect = (client: Client, given: string | undefined): string | undefined => {
  const { redirectUris, isPublic } = client;
  if (given === undefined) return redirectUris.length === 1 ? redirectUris[0] : undefined;
  const isOneOfThem = redirectUris.some((registered) => isSameRedirect(registered, given, isPublic));
  return isOneOfThem ? given : undefined;
};

const lookUp = async (sql: Queryable, rawQuery: string): Promise<Asked> => {
  const parameters = readParameters(rawQuery);
  const { client_id: clientId, redirect_uri: given, scope } = parameters.given;
  const client = clientId !== undefined && isClientId(clientId) ? await findClient(sql, clientId) : undefined;
  const redirectUri = client && chooseRedirect(client, given);
  return { ...parameters, client, redirectUri, scope: scope === undefined ? undefined : readScope(scope) };
};

const complete = ({ given, client, redirectUri, scope }: Asked): AuthorizationRequest => {
  const { state, code_challenge: codeChallenge = null } = given;
  if (client === undefined || redirectUri === undefined || scope === undefined || state === undefined)
    throw new TypeError('The tables let an incomplete authorization request through');
  return { client, redirectUri, scope, state, codeChallenge };
};

/** Reads and checks the query of /authorize, as it came without `?`; one statement, for the client. */
export const readAuthorization = async (sql: Queryable, rawQuery: string): Promise<Reading> => {
  const asked = await lookUp(sql, rawQuery);
  const { given, client, redirectUri, unreadable } = asked;
  const refusal = firstFault(beforeTrust, asked);
  if (refusal !== undefined || redirectUri === undefined) {
    const received = { clientId: given.client_id, redirectUri: given.redirect_uri, client };
    return { kind: 'refused', fault: refusal ?? refusals.redirectUriMismatch, received };
  }
  const fault = firstFault(afterTrust, asked);
  if (fault === undefined) return { kind: 'asked', request: complete(asked) };
  return { kind: 'rejected', fault, redirectUri, state: unreadable.has('state') ? undefined : given.state };
};
