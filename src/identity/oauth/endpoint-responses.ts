/** Schemas of the responses of the OAuth endpoints, for the reference. */
import { Type } from 'typebox';

const texts = Type.Array(Type.String());
const url = Type.String({ format: 'uri' });
const seconds = Type.Integer({ description: 'Seconds since 1970.' });

export const tokenResponse = Type.Object({
  access_token: Type.String(),
  token_type: Type.Literal('Bearer'),
  expires_in: Type.Integer({ description: 'Seconds.' }),
  refresh_token: Type.Optional(Type.String({ description: 'Absent for client_credentials.' })),
  scope: Type.String(),
});

export const deviceResponse = Type.Object({
  device_code: Type.String(),
  user_code: Type.String(),
  verification_uri: url,
  verification_uri_complete: url,
  expires_in: Type.Integer({ description: 'Seconds.' }),
  interval: Type.Integer({ description: 'Seconds between two polls.' }),
});

export const emptyResponse = Type.Object({});

/** RFC 7662 §2.2. */
export const introspection = Type.Object({
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
export const registration = Type.Object(registeredMembers);

export const newRegistration = Type.Object({
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
export function schemaOfMetadata(metadata: Readonly<Record<string, MetadataValue>>) {
  return Type.Object(Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name, schemaOf(value)])));
}

/** RFC 6749 §5.2. */
export const protocolError = Type.Object({ error: Type.String(), error_description: Type.String() });
