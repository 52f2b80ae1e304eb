/** The authorization server with all kinds of callers of the API: apps of every scope, and the platform. */
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createCaller } from '../setup/caller.ts';
import { ISSUER, startAuthorizationServer } from './oauth-server.ts';

export async function startWithPeople(env: Readonly<Record<string, string>> = {}) {
  const server = await startAuthorizationServer(env);
  const tokenOf = async (changes: Record<string, string>): Promise<string> =>
    String((await server.redeem(await server.newCode(changes))).body['access_token']);
  const platformToken = async (client: typeof server.platform): Promise<string> =>
    String(
      (await server.token({ grant_type: 'client_credentials', scope: 'platform', ...client })).body['access_token'],
    );
  return {
    ...server,
    call: createCaller(server.origin, ISSUER),
    /** A new token of Ada's, by the app with the name Mailer. */
    tokenOf,
    /** Of an app with access to Ada's first store. */
    store: await tokenOf({ scope: 'store_full_access' }),
    /** Of an app with access to Ada's account. */
    account: await tokenOf({ scope: 'user_full_access' }),
    platformToken: await platformToken(server.platform),
    /** Returns a token of a new client of the platform. */
    platformTokenOf: async (name: string): Promise<string> =>
      platformToken(await createClient(server.sql, { name, redirectUris: [], trusted: true, now: server.now() })),
  };
}
