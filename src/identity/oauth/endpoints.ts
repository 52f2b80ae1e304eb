/**
 * Documents the OAuth endpoints for the reference. The schemas describe the parameters; the endpoints validate them in
 * code.
 */
import { Type } from 'typebox';
import type { Endpoint } from '#http/relation.ts';
import { resourceMetadataOf } from '#http/root.ts';
import { metadataOf, resourceMetadata, serverMetadata } from './metadata.ts';
import { metadataSchema } from './registration/registration-metadata.ts';
import { permissionTexts } from './scope.ts';

export function scopeDescriptions(): Readonly<Record<string, string>> {
  return {
    store_full_access: 'One store chosen by the user: its webhooks, events and resources.',
    user_full_access: "The user's account and all their stores, except sign-in settings.",
    ...Object.fromEntries([...permissionTexts()].map(([name, about]) => [name, `${about}.`])),
    platform: 'Everything: for the platform that embeds Halcyon, with its own credentials and without a user.',
  };
}

const text = (description: string) => Type.String({ description });
const optional = (description: string) => Type.Optional(text(description));
const choice = (values: readonly string[], description: string) => Type.Unsafe<string>({ enum: values, description });

const credentials = {
  client_id: optional('Without Basic authentication.'),
  client_secret: optional('Without Basic authentication; a public client has none.'),
};

const resource = optional('The API that the token is for (RFC 8707): only its base URL is accepted.');

const authorizationParameters = Type.Object({
  response_type: choice(['code'], 'The only supported flow.'),
  client_id: text('From the registration of your client.'),
  scope: text(
    'store_full_access for one store, user_full_access for an account and all its stores, or limited scopes for one store, separated by spaces. Your client must be registered for them.',
  ),
  state: text('A random value, returned unchanged. Abort if it differs.'),
  redirect_uri: optional('Exactly one of the registered addresses; required if several are registered.'),
  response_mode: Type.Optional(choice(['query'], 'The only supported mode, and the default.')),
  code_challenge: optional('PKCE (RFC 7636): required for public clients.'),
  code_challenge_method: Type.Optional(choice(['S256'], 'The only supported method.')),
  resource,
});

const consentParameters = Type.Object({
  nonce: text('From the page.'),
  decision: choice(['allow', 'deny'], "The user's decision."),
  store: optional('For all scopes but user_full_access: the id of the chosen store.'),
  permission: Type.Optional(
    Type.Array(Type.String(), {
      description: 'The limited scopes that the user allows, if the client requested several.',
    }),
  ),
});

const tokenParameters = Type.Object({
  grant_type: choice(
    ['authorization_code', 'refresh_token', 'client_credentials', 'urn:ietf:params:oauth:grant-type:device_code'],
    'The type of grant.',
  ),
  code: optional('For authorization_code: the code from the redirect.'),
  redirect_uri: optional('For authorization_code: exactly the address that the code was sent to.'),
  code_verifier: optional('For authorization_code, if a code_challenge was sent.'),
  refresh_token: optional('For refresh_token.'),
  device_code: optional('For a device: the device_code of the response to device_authorization.'),
  scope: optional(
    'For client_credentials: platform. For refresh_token: the scopes of the new access token, if fewer than granted.',
  ),
  resource,
  ...credentials,
});

const deviceParameters = Type.Object({
  scope: text('As for authorize.'),
  resource,
  ...credentials,
});

const presentedToken = Type.Object({ token: text('An access token or a refresh token.'), ...credentials });

const texts = Type.Array(Type.String());
const url = Type.String({ format: 'uri' });
const seconds = Type.Integer({ description: 'Seconds since 1970.' });

const tokenResponse = Type.Object({
  access_token: Type.String(),
  token_type: Type.Literal('Bearer'),
  expires_in: Type.Integer({ description: 'Seconds.' }),
  refresh_token: Type.Optional(Type.String({ description: 'Absent for client_credentials.' })),
  scope: Type.String(),
});

const deviceResponse = Type.Object({
  device_code: Type.String(),
  user_code: Type.String(),
  verification_uri: url,
  verification_uri_complete: url,
  expires_in: Type.Integer({ description: 'Seconds.' }),
  interval: Type.Integer({ description: 'Seconds between two polls.' }),
});

/** RFC 7662 §2.2. */
const introspection = Type.Object({
  active: Type.Boolean({ description: 'If false, there are no other members.' }),
  scope: Type.Optional(Type.String()),
  client_id: Type.Optional(Type.String()),
  sub: Type.Optional(Type.String()),
  exp: Type.Optional(seconds),
  iat: Type.Optional(seconds),
  token_type: Type.Optional(Type.Literal('Bearer')),
  iss: Type.Optional(url),
});

const registeredMembers = {
  client_id: Type.String(),
  client_id_issued_at: seconds,
  registration_client_uri: url,
  registration_access_token: Type.String(),
  client_name: Type.String(),
  redirect_uris: texts,
  contacts: Type.Optional(texts),
  token_endpoint_auth_method: Type.String(),
  grant_types: texts,
  response_types: texts,
  scope: Type.String(),
};

/** RFC 7591 §3.2.1 and RFC 7592 §3. */
const registration = Type.Object(registeredMembers);

const newRegistration = Type.Object({
  ...registeredMembers,
  client_secret: Type.Optional(Type.String({ description: 'Absent for a public client.' })),
  client_secret_expires_at: Type.Optional(Type.Integer({ description: '0: it does not expire.' })),
});

type MetadataValue = string | boolean | readonly string[];

function schemaOf(value: MetadataValue) {
  if (typeof value === 'boolean') return Type.Boolean();
  if (typeof value !== 'string') return texts;
  return URL.canParse(value) ? url : Type.String();
}

/** Returns the schema of the metadata (RFC 8414 §2, RFC 9728 §2): that of its values. */
function schemaOfMetadata(values: Readonly<Record<string, MetadataValue>>) {
  return Type.Object(Object.fromEntries(Object.entries(values).map(([name, value]) => [name, schemaOf(value)])));
}

/** RFC 6749 §5.2. */
const protocolError = Type.Object({ error: Type.String(), error_description: Type.String() });

const BY_CLIENT = 'The client, by Basic authentication or in the body';
const PROTOCOL_ERROR = 'error and error_description describe the fault (RFC 6749 §5.2)';
const GUESSES = 'Too many failed attempts';
const NOT_AUTHENTICATED = 'Client authentication failed';

type Addresses = { baseUrl: string; authUrl: string };
/** The settings with which the metadata has every member. */
const ALL_ACCEPTED = { openRegistration: true, acceptsMetadataDocuments: true };

const grantEndpoints = ({ baseUrl, authUrl }: Addresses): Endpoint[] => [
  {
    rel: 'authorize',
    address: `${authUrl}/authorize`,
    method: 'GET',
    title: 'Request authorization',
    summary:
      'A page where the user signs in and allows or denies access; redirects back with code, state and iss, or with error and state',
    access: 'A user, in their browser',
    specification: 'RFC 6749 §4.1.1, RFC 7636, RFC 9207',
    takes: { in: 'query', schema: authorizationParameters },
    returns: 'page',
    fails: 'page',
    answers: {
      '200': 'The consent page',
      '303': 'Redirect to sign-in or to the redirect address',
      '400': 'An error page without redirect: unknown client or redirect address',
      '403': 'The user has to confirm their e-mail address first',
    },
  },
  {
    address: `${authUrl}/authorize`,
    method: 'POST',
    title: 'Allow or deny',
    summary: 'The form of the consent page; repeats all checks of GET',
    access: 'A user, in their browser, from the consent page',
    specification: 'RFC 6749 §4.1.1',
    takes: { in: 'form', schema: consentParameters },
    fails: 'page',
    answers: {
      '303': 'Redirect to the redirect address or to sign-in',
      '400': 'An error page without redirect: unknown client or redirect address',
      '403': 'The form comes from another site or from an ended session',
      '409': 'The consent page again, because something changed in the meantime',
      '422': 'The consent page again, because decision, store or permission is missing',
      '429': 'The consent page again, because of too many decisions',
    },
  },
  {
    rel: 'token',
    address: `${baseUrl}/token`,
    method: 'POST',
    title: 'Get an access token',
    summary: 'Exchanges a code, a refresh token or the credentials of a trusted client for an access token',
    access: BY_CLIENT,
    specification: 'RFC 6749 §3.2',
    takes: { in: 'form', schema: tokenParameters },
    returns: tokenResponse,
    fails: protocolError,
    answers: { '200': 'The tokens', '400': PROTOCOL_ERROR, '401': NOT_AUTHENTICATED, '429': GUESSES },
    example: {
      access_token: 'hal_at_…',
      refresh_token: 'hal_rt_…',
      expires_in: 7_200,
      token_type: 'Bearer',
      scope: 'store_full_access store_id_1001',
    },
  },
];

const deviceEndpoints = ({ authUrl }: Addresses): Endpoint[] => [
  {
    address: `${authUrl}/device_authorization`,
    method: 'POST',
    title: 'Connect a device',
    summary:
      'Starts an authorization of a device without a browser: the device shows user_code and verification_uri, and polls token with device_code',
    access: `${BY_CLIENT}; the client must be registered for the grant`,
    specification: 'RFC 8628 §3.1',
    takes: { in: 'form', schema: deviceParameters },
    returns: deviceResponse,
    fails: protocolError,
    answers: {
      '200': 'The codes',
      '400': PROTOCOL_ERROR,
      '401': NOT_AUTHENTICATED,
      '429': 'Too many codes or attempts',
    },
    example: {
      device_code: 'hal_dc_…',
      user_code: 'WDJB-MJHT',
      verification_uri: `${authUrl}/device`,
      verification_uri_complete: `${authUrl}/device?user_code=WDJB-MJHT`,
      expires_in: 600,
      interval: 5,
    },
  },
];

const tokenEndpoints = ({ authUrl }: Addresses): Endpoint[] => [
  {
    address: `${authUrl}/revoke`,
    method: 'POST',
    title: 'Revoke a token',
    summary: 'Revokes a token of the client; a refresh token revokes its whole grant',
    access: BY_CLIENT,
    specification: 'RFC 7009',
    takes: { in: 'form', schema: presentedToken },
    returns: Type.Object({}),
    fails: protocolError,
    answers: { '200': 'The token is revoked', '400': PROTOCOL_ERROR, '401': NOT_AUTHENTICATED, '429': GUESSES },
    example: {},
  },
  {
    address: `${authUrl}/introspect`,
    method: 'POST',
    title: 'Introspect a token',
    summary:
      'Returns whether a token of the client is active, with user, scope and expiry; the platform may introspect any token',
    access: `${BY_CLIENT}, or a bearer token of the platform`,
    specification: 'RFC 7662',
    takes: { in: 'form', schema: presentedToken },
    returns: introspection,
    fails: protocolError,
    answers: {
      '200': 'The state of the token, in active',
      '400': PROTOCOL_ERROR,
      '401': NOT_AUTHENTICATED,
      '403': 'The bearer token does not have the scope platform',
      '429': GUESSES,
    },
    example: {
      active: true,
      scope: 'store_full_access store_id_1001',
      client_id: 'q3Jm0vZxT8uKfW2c',
      sub: '41',
      iat: 1_782_900_000,
      exp: 1_782_907_200,
      token_type: 'Bearer',
    },
  },
];

const BY_MANAGEMENT_TOKEN = 'The client, with its registration_access_token as a bearer token';
const UNMANAGED = { '401': 'The token is not that of this client', '403': 'The app is suspended' };

/** The endpoint with which a registered client manages its registration. */
const managementEndpoints = ({ authUrl }: Addresses): Endpoint[] => {
  const shared = {
    address: `${authUrl}/register/{client_id}`,
    access: BY_MANAGEMENT_TOKEN,
    specification: 'RFC 7592',
  };
  return [
    {
      ...shared,
      method: 'GET',
      title: 'Read a registration',
      summary: 'Returns the registered metadata, without the secret',
      returns: registration,
      fails: protocolError,
      answers: { '200': 'The client', ...UNMANAGED },
    },
    {
      ...shared,
      method: 'PUT',
      title: 'Replace a registration',
      summary: 'Replaces all metadata and the registration_access_token; only this response contains the new one',
      takes: {
        in: 'json',
        schema: Type.Intersect([Type.Object({ client_id: text('Of the client.') }), metadataSchema]),
      },
      returns: registration,
      fails: protocolError,
      answers: { '200': 'The client', '400': 'error_description names every fault', ...UNMANAGED },
    },
    {
      ...shared,
      method: 'DELETE',
      title: 'Delete a registration',
      summary: 'Deletes the client, and ends all its grants and tokens',
      fails: protocolError,
      answers: { '204': 'The client is deleted', ...UNMANAGED },
    },
  ];
};

const clientEndpoints = (addresses: Addresses): Endpoint[] => [
  {
    rel: 'register',
    address: `${addresses.authUrl}/register`,
    method: 'POST',
    title: 'Register a client',
    summary: 'Creates a client; only this response contains its secret',
    access: 'A registration token of the operator, a token of the platform, or everyone if the operator allows it',
    specification: 'RFC 7591',
    takes: { in: 'json', schema: metadataSchema },
    returns: newRegistration,
    fails: protocolError,
    answers: {
      '201': 'The client',
      '400': 'error_description names every fault',
      '401': 'A registration token is required',
      '403': 'The bearer token does not have the scope platform',
      '429': 'Too many registrations',
    },
    example: {
      client_id: 'q3Jm0vZxT8uKfW2c',
      client_secret: 'hal_cs_…',
      client_secret_expires_at: 0,
      client_id_issued_at: 1_782_900_000,
      registration_client_uri: `${addresses.authUrl}/register/q3Jm0vZxT8uKfW2c`,
      registration_access_token: 'hal_mt_…',
      client_name: 'Newsletter Studio',
      redirect_uris: ['https://studio.example.com/oauth/callback'],
      token_endpoint_auth_method: 'client_secret_basic',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      scope: 'store_full_access user_full_access',
    },
  },
  ...managementEndpoints(addresses),
  {
    address: metadataOf(addresses.authUrl),
    method: 'GET',
    title: 'Authorization server metadata',
    summary: 'The endpoints and supported features, for the automatic configuration of client libraries',
    access: 'Anyone',
    specification: 'RFC 8414',
    returns: Type.Object({
      ...schemaOfMetadata(serverMetadata({ ...addresses, oauth: ALL_ACCEPTED, mcp: false })).properties,
      registration_endpoint: Type.Optional(url),
    }),
    answers: { '200': 'The metadata' },
  },
  {
    address: resourceMetadataOf(addresses.baseUrl),
    method: 'GET',
    title: 'Protected resource metadata',
    summary: 'The authorization server of the API; the challenge of a 401 has this address as resource_metadata',
    access: 'Anyone',
    specification: 'RFC 9728',
    returns: schemaOfMetadata(resourceMetadata(addresses)),
    answers: { '200': 'The metadata' },
  },
];

export function protocolEndpoints(addresses: Addresses): readonly Endpoint[] {
  return [
    ...grantEndpoints(addresses),
    ...deviceEndpoints(addresses),
    ...tokenEndpoints(addresses),
    ...clientEndpoints(addresses),
  ];
}
