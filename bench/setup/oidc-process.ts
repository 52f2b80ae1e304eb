/** The rival of P6: oidc-provider over the same PostgreSQL, through the same driver, in a process of its own. */
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Provider, type ClientMetadata, type Configuration } from 'oidc-provider';
import { openPool, type DatabaseAddress } from '#db/pool.ts';
import { answer } from './child.ts';
import { createAdapter } from './oidc-adapter.ts';
import { REDIRECT_URI, type Credentials } from './token-seed.ts';

const SCOPE = 'store_full_access';
const ACCOUNT = 'account';
const HOUR_SECONDS = 3_600;
const YEAR_SECONDS = 365 * 24 * HOUR_SECONDS;
const off = { enabled: false } as const;

const ends: (() => Promise<void>)[] = [];
let statements = 0;
let running: { provider: Provider; clientId: string } | undefined;

/** Everything off that a token request could pay for and we do not have either; no `openid`, so nothing is signed. */
const configurationOf = (client: ClientMetadata, isStored: boolean): Configuration => ({
  clients: isStored ? [] : [client],
  scopes: [SCOPE],
  rotateRefreshToken: false,
  issueRefreshToken: async () => true,
  // No statement is spent on whether the person is still there.
  findAccount: async (_ctx, accountId) => ({ accountId, claims: async () => ({ sub: accountId }) }),
  clientAuthMethods: ['client_secret_basic'],
  ttl: {
    AccessToken: 2 * HOUR_SECONDS,
    AuthorizationCode: HOUR_SECONDS,
    Grant: YEAR_SECONDS,
    RefreshToken: YEAR_SECONDS,
  },
  features: { devInteractions: off, dPoP: off, resourceIndicators: off, rpInitiatedLogout: off, userinfo: off },
  // Of its own, so that it does not warn of those it comes with.
  jwks: { keys: [generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })] },
  cookies: { keys: ['of this bench'] },
});

/** A grant of its own for each code, as in Halcyon. */
async function newCode({ provider, clientId }: NonNullable<typeof running>): Promise<string> {
  const client = await provider.Client.find(clientId);
  if (client === undefined) throw new Error('The client is gone');
  const grant = new provider.Grant({ accountId: ACCOUNT, clientId });
  grant.addOIDCScope(SCOPE);
  const grantId = await grant.save();
  const parts = { accountId: ACCOUNT, client, grantId, redirectUri: REDIRECT_URI, scope: SCOPE };
  return new provider.AuthorizationCode(parts as ConstructorParameters<typeof provider.AuthorizationCode>[0]).save();
}

const handlers = {
  /** Where the client is not stored it stands in the configuration, and finding it costs no statement. */
  start: async (given: {
    address: DatabaseAddress;
    port: number;
    credentials: Credentials;
    connections: number;
    isStored: boolean;
    counts: boolean;
  }): Promise<string> => {
    const sql = openPool(given.address, {
      connections: given.connections,
      applicationName: 'bench-rival',
      ...(given.counts && { onQuery: () => void (statements += 1) }),
    });
    ends.push(() => sql.end({ timeout: 1 }));
    const adapter = createAdapter(sql);
    const client: ClientMetadata = {
      ...given.credentials,
      redirect_uris: [REDIRECT_URI],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'client_secret_basic',
    };
    if (given.isStored) await adapter('Client').upsert(client.client_id, client);
    const configuration = configurationOf(client, given.isStored);
    const provider = new Provider(`http://127.0.0.1:${given.port}`, { adapter, ...configuration });
    provider.on('server_error', (_ctx, error) => process.stderr.write(`${error.stack ?? error.message}\n`));
    const serve = provider.callback();
    const server = createServer((request, response) => void serve(request, response)).listen(given.port, '127.0.0.1');
    await once(server, 'listening');
    ends.push(async () => void server.close());
    running = { provider, clientId: client.client_id };
    const disabled = Object.keys(configuration.features ?? {}).join(', ');
    const { rotateRefreshToken } = configuration;
    return `rotateRefreshToken=${String(rotateRefreshToken)}, opaque tokens, no openid; off: ${disabled}`;
  },
  codes: async (count: number): Promise<string[]> => {
    if (running === undefined) throw new Error('Not started');
    const parts = running;
    return Promise.all(Array.from({ length: count }, () => newCode(parts)));
  },
  statements: async (_: null): Promise<number> => statements,
};

export type OidcProcess = typeof handlers;
answer(handlers, async () => {
  for (const end of ends.toReversed()) await end();
});
