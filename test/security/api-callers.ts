/** The authorization server with all kinds of callers of the API: apps of every scope, and the platform. */
import { createCaller } from '../setup/caller.ts';
import { ISSUER, startAuthorizationServer } from './oauth-server.ts';

export async function startWithPeople(env: Readonly<Record<string, string>> = {}) {
  const server = await startAuthorizationServer(env);
  const tokenOf = async (changes: Record<string, string>): Promise<string> =>
    String((await server.redeem(await server.newCode(changes))).body['access_token']);
  const granted = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  return {
    ...server,
    call: createCaller(server.origin, ISSUER),
    /** A new token of Ada's, by the app with the name Mailer. */
    tokenOf,
    /** Of an app with access to Ada's first store. */
    store: await tokenOf({ scope: 'store_full_access' }),
    /** Of an app with access to Ada's account. */
    account: await tokenOf({ scope: 'user_full_access' }),
    platformToken: String(granted.body['access_token']),
  };
}
