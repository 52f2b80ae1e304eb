/** The protocol's own addresses, told as their RFCs have them: what the steps behind them judge, no schema does. */
import { Type } from 'typebox';
import type { Endpoint } from '#http/relation.ts';
import type { Scope } from '#core/principal.ts';
import { metadataPath } from './metadata.ts';

/** What an app may be let into, as people and programs are told. */
export const scopeWords: Readonly<Record<Scope, string>> = {
  store_full_access: 'One store, which the person chooses: its webhooks, its events and what it sells.',
  user_full_access: 'The account of a person and all their stores, but never how they sign in.',
  platform: 'Everything: for the platform that embeds Halcyon, by its own credentials and without a person.',
};

const text = (description: string) => Type.String({ description });
const optional = (description: string) => Type.Optional(text(description));
const choice = (values: readonly string[], description: string) => Type.Unsafe<string>({ enum: values, description });

const credentials = {
  client_id: optional('Where Basic authentication is not used.'),
  client_secret: optional('Where Basic authentication is not used; a public client has none.'),
};

const asked = Type.Object({
  response_type: choice(['code'], 'The one flow there is.'),
  client_id: text('From the registration of your client.'),
  scope: text('store_full_access for one store, user_full_access for an account and all its stores.'),
  state: text('A random text of yours; it comes back, and you stop where it is another one.'),
  redirect_uri: optional('Octet for octet one of those that are registered; needed where there are several.'),
  code_challenge: optional('PKCE (RFC 7636): required of public clients.'),
  code_challenge_method: Type.Optional(choice(['S256'], 'The one method there is.')),
});

const decided = Type.Object({
  nonce: text('From the page.'),
  decision: choice(['allow', 'deny'], 'What the person says.'),
  store: optional('For store_full_access: the id of the store that is chosen.'),
});

const exchanged = Type.Object({
  grant_type: choice(['authorization_code', 'refresh_token', 'client_credentials'], 'What you exchange.'),
  code: optional('For authorization_code: what came back to your redirect address.'),
  redirect_uri: optional('For authorization_code: octet for octet the address that the code was sent to.'),
  code_verifier: optional('For authorization_code, where a code_challenge was sent.'),
  refresh_token: optional('For refresh_token.'),
  scope: optional('For client_credentials: platform.'),
  ...credentials,
});

const given = Type.Object({ token: text('An access token or a refresh token.'), ...credentials });

const metadata = Type.Object({
  client_name: optional('What people read on the page that asks for their consent.'),
  redirect_uris: Type.Array(Type.String(), { description: 'Where people may be sent back to.' }),
  contacts: Type.Optional(Type.Array(Type.String(), { description: 'Whom to write to; the first one is kept.' })),
  token_endpoint_auth_method: Type.Optional(
    choice(['client_secret_basic', 'client_secret_post', 'none'], 'none makes a public client, which uses PKCE.'),
  ),
});

const BY_CLIENT = 'The client, by Basic authentication or in the body';
const PROTOCOL_ERROR = 'error and error_description say what is wrong (RFC 6749 §5.2)';
const GUESSES = 'Too many wrong tries';
const NOT_AUTHENTICATED = 'The client did not prove who it is';

type Addresses = { baseUrl: string; authUrl: string };

/** How an app gets its tokens. */
const grantEndpoints = ({ baseUrl, authUrl }: Addresses): Endpoint[] => [
  {
    rel: 'authorize',
    address: `${authUrl}/authorize`,
    method: 'GET',
    title: 'Ask a person to let you in',
    summary:
      'A page for people: they sign in and allow or deny; the browser comes back with code, state and iss, or with error and state',
    access: 'A person, in their browser',
    specification: 'RFC 6749 §4.1.1, RFC 7636, RFC 9207',
    takes: { in: 'query', schema: asked },
    answers: {
      '200': 'The page that asks',
      '303': 'To sign in, or back to the redirect address',
      '400': 'A page: client or redirect address are not known, so nobody is sent anywhere',
    },
  },
  {
    address: `${authUrl}/authorize`,
    method: 'POST',
    title: 'Allow or deny',
    summary: 'The form of the page that asks; what GET checked is checked again',
    access: 'A person, in their browser, from the page itself',
    specification: 'RFC 6749 §4.1.1',
    takes: { in: 'form', schema: decided },
    answers: {
      '303': 'Back to the redirect address, or to sign in',
      '400': 'A page: client or redirect address are not known, so nobody is sent anywhere',
      '403': 'The form is of another site, or of a session that has ended',
      '409': 'Something changed meanwhile: the page again',
      '422': 'No decision or no store: the page again',
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
    takes: { in: 'form', schema: exchanged },
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

/** What becomes of a token. */
const tokenEndpoints = ({ authUrl }: Addresses): Endpoint[] => [
  {
    address: `${authUrl}/revoke`,
    method: 'POST',
    title: 'Give up a token',
    summary: 'Ends a token of the client; a refresh token ends everything that came of the same consent',
    access: BY_CLIENT,
    specification: 'RFC 7009',
    takes: { in: 'form', schema: given },
    answers: { '200': 'It is worth nothing now', '400': PROTOCOL_ERROR, '401': NOT_AUTHENTICATED, '429': GUESSES },
    example: {},
  },
  {
    address: `${authUrl}/introspect`,
    method: 'POST',
    title: 'Ask what a token is worth',
    summary: 'Whether a token of the client still counts, for whom and until when; the platform may ask of any token',
    access: `${BY_CLIENT}, or a bearer token of the platform`,
    specification: 'RFC 7662',
    takes: { in: 'form', schema: given },
    answers: {
      '200': 'active says whether it counts',
      '400': PROTOCOL_ERROR,
      '401': NOT_AUTHENTICATED,
      '403': 'The bearer token has not the scope platform',
      '429': GUESSES,
    },
    example: {
      active: true,
      scope: 'store_full_access store_id_1001',
      client_id: 'q3Jm0vZxT8uKfW2c',
      token_type: 'Bearer',
    },
  },
];

const clientEndpoints = ({ baseUrl, authUrl }: Addresses): Endpoint[] => [
  {
    rel: 'register',
    address: `${authUrl}/register`,
    method: 'POST',
    title: 'Register a client',
    summary: 'Makes a client; its secret is in this answer and in none after it',
    access: 'A registration token of the operator, a token of the platform, or anybody where the operator allows it',
    specification: 'RFC 7591',
    takes: { in: 'json', schema: metadata },
    answers: {
      '201': 'The client',
      '400': 'error_description names every fault',
      '401': 'A registration token is needed',
      '403': 'The bearer token has not the scope platform',
      '429': 'Too many registrations',
    },
    example: {
      client_id: 'q3Jm0vZxT8uKfW2c',
      client_secret: 'hal_cs_…',
      client_secret_expires_at: 0,
      client_name: 'Newsletter Studio',
      redirect_uris: ['https://studio.example.com/oauth/callback'],
    },
  },
  {
    address: new URL(metadataPath(authUrl), authUrl).href,
    method: 'GET',
    title: 'What the authorization server can do',
    summary: 'Where everything is and what is supported, so that a client library configures itself',
    access: 'Anyone',
    specification: 'RFC 8414',
    answers: { '200': 'The metadata' },
    example: { issuer: authUrl, authorization_endpoint: `${authUrl}/authorize`, token_endpoint: `${baseUrl}/token` },
  },
];

/** Every address that programs and browsers call in the words of OAuth. */
export const protocolEndpoints = (addresses: Addresses): readonly Endpoint[] => [
  ...grantEndpoints(addresses),
  ...tokenEndpoints(addresses),
  ...clientEndpoints(addresses),
];
