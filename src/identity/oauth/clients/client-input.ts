/**
 * The input of a client: the schema of a request body that creates one, and the settings in an input of the API or of the form.
 */
import { Type, type Static } from 'typebox';
import { clearableText, flag, isSet, readOnly } from '#http/inputs.ts';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { ADDRESS_LENGTH_MAX } from '../redirect-uri.ts';
import { userScopes } from '../scope.ts';
import type { AppWebhooks } from './app-webhook.ts';
import type { ClientChange } from './client-change.ts';
import type { NewClient } from './clients.ts';
import { DESCRIPTION_LENGTH_MAX, NAME_LENGTH_MAX } from './client-rules.ts';

/** As of a webhook that a store creates. */
const WEBHOOK_URL_LENGTH_MAX = 1_000;

const address = (description: string) => clearableText({ maxLength: ADDRESS_LENGTH_MAX, kind: 'url', description });

/** Links on the page of the app, and the address that starts its installation. */
const addresses = {
  client_uri: address('The homepage of the app, with https:.'),
  policy_uri: address('The privacy policy of the app, with https:.'),
  tos_uri: address('The terms of the app, with https:.'),
  initiate_login_uri: address(
    'The address at which the app starts its installation in a store (OpenID Connect Core 1.0 §4): https, or http on loopback.',
  ),
};

export function describeClient() {
  return Type.Object(
    {
      name: Type.String({ maxLength: NAME_LENGTH_MAX, description: 'The name of the app.' }),
      company: clearableText({ maxLength: NAME_LENGTH_MAX, description: 'The company that provides the app.' }),
      description: clearableText({
        maxLength: DESCRIPTION_LENGTH_MAX,
        description: 'What the app does for its users.',
      }),
      contact: clearableText({
        maxLength: EMAIL_LENGTH_MAX,
        description: 'The e-mail address for questions about the app.',
      }),
      redirect_uris: Type.Optional(
        Type.Array(Type.String(), {
          kind: 'url',
          description: 'The redirect addresses, exactly as the app sends them.',
        }),
      ),
      scopes: Type.Optional(
        Type.Unsafe<readonly string[] | null>({
          type: ['array', 'null'],
          items: { type: 'string', choices: userScopes() },
          description: 'The scopes that the app may request; by default store_full_access and user_full_access.',
        }),
      ),
      ...addresses,
      webhook_url: clearableText({
        maxLength: WEBHOOK_URL_LENGTH_MAX,
        kind: 'url',
        description:
          'The http or https address that receives the events of the app from every store: installed, uninstalled, scopes changed. Without a query.',
      }),
      owner: Type.Optional(
        Type.Unsafe<number | null>({
          type: ['integer', 'null'],
          minimum: 1,
          maximum: Number.MAX_SAFE_INTEGER,
          description: 'The id of the user who owns the app; without one, the operator owns it.',
        }),
      ),
      is_public: flag({ description: 'The app cannot keep a secret, for example in a browser or on a phone.' }),
      is_verified: flag({
        description: 'The app has been verified, so that users see no warning. Default: true.',
      }),
      is_legacy: flag({
        description: 'The app may omit redirect_uri at the token endpoint; requires exactly one address.',
      }),
      is_listed: flag({ description: 'Anyone may read the page of the app.' }),
      rotates_refresh_tokens: flag({
        description: 'Each refresh returns a new refresh token; always true for a public client.',
      }),
      requires_pkce: flag({
        description: 'The app must use PKCE (RFC 7636). Default: only a public client must.',
      }),
      client_id: readOnly(),
      client_secret: readOnly(),
      webhook_key: readOnly(),
      /**
       * Only set on the command line: a platform token, valid for two hours, must not create a permanently trusted client.
       */
      is_trusted: readOnly(),
      logo: readOnly(),
      date_created: readOnly(),
      date_modified: readOnly(),
    },
    { additionalProperties: false },
  );
}

export type NewClientBody = Static<ReturnType<typeof describeClient>>;

/** Returns the settings of an input; those that it omits are empty. */
export function settingsOf(input: Partial<NewClientBody>): ClientChange {
  return {
    // A name that the schema rejected is missing here; its fault is already reported.
    name: input.name ?? '',
    company: input.company || null,
    description: input.description || null,
    contact: input.contact || null,
    redirectUris: input.redirect_uris ?? [],
    scopes: input.scopes ?? null,
    clientUri: input.client_uri || null,
    policyUri: input.policy_uri || null,
    tosUri: input.tos_uri || null,
    initiateLoginUri: input.initiate_login_uri || null,
    isListed: isSet(input.is_listed),
    webhookUrl: input.webhook_url || null,
    rotatesRefreshTokens: isSet(input.rotates_refresh_tokens),
    requiresPkce: isSet(input.requires_pkce),
  };
}

/** Returns a new client with these settings, which declares a webhook if they have its url. */
export function withDeclared(
  { webhookUrl, ...settings }: ClientChange,
  declare: AppWebhooks['declare'],
): Pick<NewClient, 'webhook'> & Omit<ClientChange, 'webhookUrl'> {
  return { ...settings, webhook: webhookUrl === null ? null : { url: webhookUrl, declare } };
}
