/** Users with their own stores, apps with access to them, and the changelog of a store. */
import { createUser } from '#identity/accounts/users.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember, createStore } from '#stores/store.ts';
import { createBrowser, PASSWORD, REDIRECT } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { passwords } from './passwords.ts';

export type Entry = {
  resource: string;
  resource_id: number;
  action: string;
  actor: string;
  user: number | null;
  client: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
};

export async function startWithOwners(env: Readonly<Record<string, string>> = {}) {
  const people = await startWithPeople(env);
  const { sql, origin } = people;
  let n = 0;
  /** Creates a signed-in user and a store of which the user is the only member. */
  const newOwner = async () => {
    const now = people.now();
    const email = `owner${(n += 1)}@example.com`;
    const { id: userId } = await createUser(sql, passwords, { email, password: PASSWORD, now });
    const details = { name: 'Shop', domain: `shop${n}.example.com`, email, timeZone: 'UTC' };
    const { id: storeId } = await createStore(sql, { ...details, now });
    await addMember(sql, { storeId, userId, role: 'owner', now });
    const browser = createBrowser(origin);
    await browser.signIn(email);
    return { userId, email, storeId, browser };
  };
  type NewOwner = Awaited<ReturnType<typeof newOwner>>;

  /** An app with its internal and public id. */
  const newApp = async (owner?: number, rotatesRefreshTokens = false) => {
    const made = { name: 'Gadget', redirectUris: [REDIRECT], trusted: false, rotatesRefreshTokens, now: people.now() };
    const of = owner === undefined ? {} : { owner: { userId: owner, clientsPerUser: 50 } };
    const credentials = await createClient(sql, { ...made, ...of });
    const [row] = await sql<{ id: number }[]>`select id from client where client_id = ${credentials.client_id}`;
    return { id: row?.id ?? NaN, credentials };
  };
  type NewApp = Awaited<ReturnType<typeof newApp>>;

  const consent = async ({ browser }: NewOwner, { credentials }: NewApp, changes: Record<string, string> = {}) => {
    const { location } = await browser.consent(people.asking({ client_id: credentials.client_id, ...changes }));
    return new URL(location ?? '').searchParams.get('code') ?? '';
  };
  const letIn = async (owner: NewOwner, app: NewApp, changes: Record<string, string> = {}) => {
    const code = await consent(owner, app, changes);
    const { body } = await people.redeem(code, app.credentials);
    return { code, access: String(body['access_token']), refresh: String(body['refresh_token']) };
  };

  /** Returns the changelog entries of a store, the oldest first. */
  const entriesOf = async (storeId: number): Promise<Entry[]> => {
    const rows = await sql<{ body: string }[]>`
      select body from event where resource_type = 'changelog' and store_id = ${storeId} order by id`;
    return rows.map(({ body }) => JSON.parse(body) as Entry);
  };
  const grantOf = async ({ userId }: NewOwner): Promise<number> => {
    const [row] = await sql<{ id: number }[]>`select max(id) as id from access_grant where user_id = ${userId}`;
    return row?.id ?? NaN;
  };
  return { ...people, newOwner, newApp, consent, letIn, entriesOf, grantOf };
}

export type Owners = Awaited<ReturnType<typeof startWithOwners>>;
export type Owner = Awaited<ReturnType<Owners['newOwner']>>;
export type App = Awaited<ReturnType<Owners['newApp']>>;
export type Tokens = Awaited<ReturnType<Owners['letIn']>>;
