/**
 * What a client asks of /authorize, checked. Both the page and the form that it posts go through the same tables, in the
 * order of the contract.
 */
import type { Queryable } from '#database/pool.ts';
import { isClientId } from '../clients/clients.ts';
import { refusals, rejections, type Fault } from '../errors.ts';
import { isSoundChallenge } from '../pkce.ts';
import { findClient, type Client } from '../clients/queries.ts';
import { readScope, type RequestedScope } from '../scope.ts';

const PARAMETERS = [
  'client_id',
  'redirect_uri',
  'response_type',
  'scope',
  'state',
  'code_challenge',
  'code_challenge_method',
] as const;
type Parameter = (typeof PARAMETERS)[number];

/** What is known of the request, sound or not. A repeated parameter has no value: there is no telling which was meant. */
type Asked = {
  given: Readonly<Partial<Record<Parameter, string>>>;
  repeated: ReadonlySet<Parameter>;
  client: Client | undefined;
  /** The registered address that the answer goes to. */
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

export type Reading =
  /** Nothing says that the redirect address is the client's: a page. */
  | { kind: 'refused'; fault: Fault }
  /** The client hears of it, by redirect. */
  | { kind: 'rejected'; fault: Fault; redirectUri: string; state: string | undefined }
  | { kind: 'asked'; request: AuthorizationRequest };

type Check = (asked: Asked) => Fault | undefined;
type Steps = readonly (readonly [what: string, check: Check])[];

/** Text that was not UTF-8 arrives with U+FFFD in it, and could not go back as it came. */
const isReadable = (text: string): boolean => !/[\uFFFD\0]/.test(text);

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

const stateReadable: Check = ({ given }) => (isReadable(given.state ?? '') ? undefined : rejections.unreadableState);

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
  ['all once',       everythingOnce  ],
  ['response_type',  responseTypeCode],
  ['scope',          scopeSupplied   ],
  ['scope',          scopeSupported  ],
  ['state',          stateSupplied   ],
  ['state',          stateReadable   ],
  ['code_challenge', challengeSound  ],
];

const firstFault = (steps: Steps, asked: Asked): Fault | undefined => {
  for (const [, check] of steps) {
    const fault = check(asked);
    if (fault !== undefined) return fault;
  }
  return undefined;
};

/** Octet for octet one of the registered addresses; absent means the only one (RFC 6749 §3.1.2.3). */
const chooseRedirect = ({ redirectUris }: Client, given: string | undefined): string | undefined => {
  if (given !== undefined) return redirectUris.find((registered) => registered === given);
  return redirectUris.length === 1 ? redirectUris[0] : undefined;
};

const lookUp = async (sql: Queryable, query: URLSearchParams): Promise<Asked> => {
  const given: Partial<Record<Parameter, string>> = {};
  const repeated = new Set<Parameter>();
  for (const name of PARAMETERS) {
    const [value = '', ...others] = query.getAll(name);
    if (others.length > 0) repeated.add(name);
    // A parameter without a value counts as absent (RFC 6749 §3.1).
    else if (value !== '') given[name] = value;
  }
  const { client_id: clientId } = given;
  const client = clientId !== undefined && isClientId(clientId) ? await findClient(sql, clientId) : undefined;
  return {
    given,
    repeated,
    client,
    redirectUri: client && chooseRedirect(client, given.redirect_uri),
    scope: given.scope === undefined ? undefined : readScope(given.scope),
  };
};

const complete = ({ given, client, redirectUri, scope }: Asked): AuthorizationRequest => {
  const { state, code_challenge: codeChallenge = null } = given;
  if (client === undefined || redirectUri === undefined || scope === undefined || state === undefined)
    throw new TypeError('The tables let an incomplete authorization request through');
  return { client, redirectUri, scope, state, codeChallenge };
};

/** Reads and checks the query of /authorize; one statement, for the client. */
export const readAuthorization = async (sql: Queryable, query: URLSearchParams): Promise<Reading> => {
  const asked = await lookUp(sql, query);
  const refusal = firstFault(beforeTrust, asked);
  if (refusal !== undefined || asked.redirectUri === undefined)
    return { kind: 'refused', fault: refusal ?? refusals.redirectUriMismatch };
  const fault = firstFault(afterTrust, asked);
  if (fault === undefined) return { kind: 'asked', request: complete(asked) };
  const { state } = asked.given;
  const echoed = state !== undefined && isReadable(state) ? state : undefined;
  return { kind: 'rejected', fault, redirectUri: asked.redirectUri, state: echoed };
};
