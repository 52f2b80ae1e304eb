/** A client and a person who has allowed it much: codes of the real statement, tokens of the real endpoint. */
import { createPasswords, PASSWORD_COST, createUser } from '#identity/accounts/users.ts';
import type { Sql } from '#db/pool.ts';
import { insertApproval } from '#identity/oauth/authorize/authorize-sql.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { findClient } from '#identity/oauth/clients/clients-sql.ts';
import { createToken } from '#identity/oauth/oauth-tokens.ts';
import { addMember, createStore } from '#stores/store.ts';
import type { Child } from './child.ts';
import type { HttpLoadProcess, Target } from './http-load-process.ts';

export const REDIRECT_URI = 'https://app.example.com/callback';
const HOUR_MS = 3_600_000;

export type Credentials = { client_id: string; client_secret: string };
export type SeededClient = { credentials: Credentials; id: number; userId: number; storeId: number };

/** As a client sends it (RFC 6749 §2.3.1); these ids and secrets are the same when they are form-encoded. */
export function basic({ client_id: id, client_secret: secret }: Credentials): string {
  return `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
}

export function exchangeBody(code: string): string {
  return new URLSearchParams({ grant_type: 'authorization_code', code, redirect_uri: REDIRECT_URI }).toString();
}

export function refreshBody(refreshToken: string): string {
  return new URLSearchParams({ grant_type: 'refresh_token', refresh_token: refreshToken }).toString();
}

/** A confidential client, whose refresh tokens are stable, and a user with a store. */
export async function seedClient(sql: Sql): Promise<SeededClient> {
  const now = new Date();
  const passwords = createPasswords({ hashesAtOnce: 1, cost: PASSWORD_COST });
  const { id: userId } = await createUser(sql, passwords, { email: 'a@example.com', password: 'a long password', now });
  const store = { name: 'Store', domain: 'store.example.com', email: 'a@example.com', timeZone: 'UTC' };
  const { id: storeId } = await createStore(sql, { ...store, now });
  await addMember(sql, { storeId, userId, role: 'owner', now });
  const credentials = await createClient(sql, { name: 'Bench', redirectUris: [REDIRECT_URI], trusted: false, now });
  const client = await findClient(sql, credentials.client_id);
  if (client === undefined) throw new Error('The client is gone');
  return { credentials, id: client.id, userId, storeId };
}

/** Approvals as the consent page writes them, but that their codes can be redeemed for an hour. */
export function seedCodes(sql: Sql, { id, userId, storeId }: SeededClient, count: number): Promise<string[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const now = new Date();
      const code = createToken('authorizationCode');
      await insertApproval(sql, {
        client: id,
        userId,
        scope: 'store_full_access',
        permissions: null,
        storeId,
        codeHash: code.hash,
        redirectUri: REDIRECT_URI,
        codeChallenge: null,
        now,
        ends: null,
        codeExpires: new Date(now.getTime() + HOUR_MS),
      });
      return code.value;
    }),
  );
}

/** Redeems the codes at the server that issued them; returns the refresh tokens. */
export async function redeemAll(
  load: Child<HttpLoadProcess>,
  target: Target,
  codes: readonly string[],
): Promise<string[]> {
  const { answers, failures } = await load.ask('burst', {
    target,
    bodies: codes.map(exchangeBody),
    connections: 16,
    keeps: true,
  });
  if (failures.length > 0) throw new Error(`${failures.length} codes were refused, the first with ${failures[0]}`);
  return answers.map((text) => {
    const { refresh_token: token } = JSON.parse(text) as { refresh_token?: string };
    if (token === undefined) throw new Error(`No refresh token in ${text}`);
    return token;
  });
}
