/** People, stores and clients that show every page in every state, and the table of those pages. */
import { createHash } from 'node:crypto';
import type { Page } from 'playwright-core';
import { createUser } from '#identity/accounts/users.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember, createStore } from '#stores/store.ts';
import { createBrowser, PASSWORD, startAuthorizationServer } from '../security/oauth-server.ts';
import { enrol, makeOperator, openConsole } from '../security/operators.ts';
import { passwords } from '../setup/passwords.ts';

const NOW = new Date('2026-07-01T10:00:00.000Z');
export const MANY_STORES = 300;

/** One red pixel. */
const PICTURE = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
);

type Server = Awaited<ReturnType<typeof startAuthorizationServer>>;

async function addPeople({ sql }: Server) {
  const add = async (name: string): Promise<{ id: number; email: string }> => {
    const email = `${name}@example.com`;
    return { email, ...(await createUser(sql, passwords, { email, password: PASSWORD, now: NOW })) };
  };
  const [solo, none, many] = [await add('solo'), await add('none'), await add('many')];
  const operator = await add('operator');
  await makeOperator({ sql }, operator.id);
  const shop = { name: 'Corner Shop', domain: 'corner.example.com', email: 'shop@example.com', timeZone: 'UTC' };
  const { id: storeId } = await createStore(sql, { ...shop, now: NOW });
  await addMember(sql, { storeId, userId: solo.id, role: 'owner', now: NOW });
  await sql`
    with made as (
      insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
      select n % 256, n, 'Shop number ' || n, 'shop' || n || '.example.com', '', 'UTC', ${NOW}, ${NOW}
      from generate_series(1000001, 1000000 + ${MANY_STORES}::bigint) n
      returning shard, id
    )
    insert into membership (shard, store_id, user_id, role, date_created)
    select shard, id, ${many.id}, 'owner', ${NOW} from made
  `;
  return { solo: solo.email, none: none.email, many: many.email, operator: operator.email };
}

async function addClients({ sql, adaId, other }: Server) {
  await sql`update client set suspended_reason = 'It sends messages that the stores did not order' where client_id = ${other.client_id}`;
  const details = { trusted: false, now: NOW };
  const full = await createClient(sql, {
    ...details,
    name: 'Newsletter Studio',
    company: 'Example Mail GmbH',
    description: 'Writes to your customers when something they like is on sale again.',
    redirectUris: ['https://studio.example.com/oauth/callback'],
    clientUri: 'https://studio.example.com/',
    policyUri: 'https://studio.example.com/privacy',
    initiateLoginUri: 'https://studio.example.com/install',
    isListed: true,
    owner: { userId: adaId, clientsPerUser: 50 },
  });
  await sql`
    insert into client_logo (client, media_type, bytes, date_modified)
    select id, 'image/png', ${PICTURE}, ${NOW} from client where client_id = ${full.client_id}
  `;
  const stranger = await createClient(sql, {
    ...details,
    name: 'An app with quite a long name that a person registered themselves',
    redirectUris: ['https://a-rather-long-name-of-a-host.accounts.internal.example.com:8443/cb'],
    initiateLoginUri: 'https://a-rather-long-name-of-a-host.accounts.internal.example.com:8443/install',
    owner: { userId: adaId, clientsPerUser: 50 },
    isVerified: false,
  });
  return { full: full.client_id, stranger: stranger.client_id };
}

/** Returns the code that a device shows. */
async function startDevice({ sql, origin }: Server): Promise<string> {
  const redirectUris = ['http://127.0.0.1/callback'];
  const made = { name: 'Television', redirectUris, trusted: false, allowsDeviceGrant: true, now: NOW };
  const { client_id } = await createClient(sql, { ...made, isPublic: true });
  const body = new URLSearchParams({ client_id, scope: 'store_full_access' });
  const response = await fetch(`${origin}/device_authorization`, { method: 'POST', body });
  return ((await response.json()) as { user_code: string }).user_code;
}

/** A webhook that fails, with a long name and host. */
async function addFailing({ sql, alpha }: Server): Promise<void> {
  const [shard, id] = [alpha % 256, 256 * 1_000_000 + (alpha % 256)];
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, url, encryption_key, event_resource, events, is_active, headers,
      retry_profile, date_created, date_modified)
    values (${shard}, ${id}, ${alpha}, 'Orders for the warehouse in Rotterdam', 'json', '2',
      'https://hooks.eu-west-1.warehouse.example.com/', 'key', 'transaction', '{transaction/created}', true, '{}', 'hour', ${NOW}, ${NOW})`;
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at)
    values (${shard}, ${id}, 0, 7, ${NOW})`;
}

/** The token of a mailed link to a new password, valid for an hour. */
const RESET_TOKEN = `hal_pr_${'A'.repeat(43)}`;

/** The tokens of links to a new address, back to the former one, to a new account, and to the pages of a store. */
const [CHANGE_TOKEN, UNDO_TOKEN, SIGN_UP_TOKEN, PORTAL_TOKEN] = ['hal_ec_', 'hal_eu_', 'hal_su_', 'hal_pl_'].map(
  (prefix) => `${prefix}${'A'.repeat(43)}`,
);

async function addLinks({ sql, adaId, alpha, platform }: Server): Promise<void> {
  const hashOf = (token = '') => createHash('sha256').update(token).digest();
  await sql`
    insert into email_change (hash, undo_hash, user_id, old_email, new_email, date_created, date_expires, date_undo_expires)
    values (${hashOf(CHANGE_TOKEN)}, ${hashOf(UNDO_TOKEN)}, ${adaId}, 'ada@example.com', 'ada.lovelace@example.com', ${NOW},
      ${NOW}::timestamptz + interval '1 day', ${NOW}::timestamptz + interval '7 days')
  `;
  await sql`
    insert into sign_up (hash, email, date_created, date_expires)
    values (${hashOf(SIGN_UP_TOKEN)}, 'new@example.com', ${NOW}, ${NOW}::timestamptz + interval '1 h')
  `;
  await sql`
    insert into portal_session (hash, user_id, store_id, client, date_created, date_expires)
    select ${hashOf(PORTAL_TOKEN)}, ${adaId}, ${alpha}, id, ${NOW}, ${NOW}::timestamptz + interval '1 min'
    from client where client_id = ${platform.client_id}
  `;
}

/** The tokens of links to invitations: for anyone, and for a person who is not signed in. */
const [OPEN_TOKEN, BOUND_TOKEN] = ['A', 'B'].map((letter) => `hal_in_${letter.repeat(43)}`);

async function addInvitations({ sql, alpha }: Server): Promise<void> {
  const hashOf = (token = '') => createHash('sha256').update(token).digest();
  const shard = alpha % 256;
  const id = (n: number) => n * 256 + shard;
  await sql`
    insert into invitation (shard, id, store_id, hash, email, role, date_created, date_expires)
    values (${shard}, ${id(1_000_000)}, ${alpha}, ${hashOf(OPEN_TOKEN)}, null, 'owner', ${NOW}, ${NOW}::timestamptz + interval '72 h'),
      (${shard}, ${id(1_000_001)}, ${alpha}, ${hashOf(BOUND_TOKEN)}, 'guest@example.com', 'member', ${NOW}, ${NOW}::timestamptz + interval '72 h')
  `;
}

/** The content of their account pages: an app with access, and a mailed link. */
async function addTraces({ sql, adaId, browser, asking }: Server): Promise<void> {
  await browser.consent(asking());
  await sql`
    insert into password_reset (hash, user_id, date_created, date_expires)
    values (${createHash('sha256').update(RESET_TOKEN).digest()}, ${adaId}, ${NOW}, ${NOW}::timestamptz + interval '1 h')
  `;
}

/** A server whose issuer resolves, with all people signed in; `cookieOf` returns the cookie of their browser. */
export async function startScene() {
  // No mail server listens there: the pages are those of a service that sends mail.
  const mail = { SMTP_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'halcyon@example.com' };
  const server = await startAuthorizationServer({ ...mail, SIGN_UP: 'on' }, { isResolvable: true });
  const emails = { ada: server.ada, ...(await addPeople(server)) };
  const clients = await addClients(server);
  await addTraces(server);
  await addInvitations(server);
  await addLinks(server);
  await addFailing(server);
  // Signed in once each: the clock stands still, and sign-in is throttled.
  const signedIn = new Map<string, Promise<{ name: string; value: string; url: string }[]>>();
  const signIn = async (email: string) => {
    const visitor = createBrowser(server.origin);
    await visitor.signIn(email);
    if (email === emails.operator) await openConsole(visitor, await enrol(server, visitor));
    return [...visitor.jar].map(([name, value]) => ({ name, value, url: server.origin }));
  };
  const cookieOf = (email: string) => {
    const cookies = signedIn.get(email) ?? signIn(email);
    signedIn.set(email, cookies);
    return cookies;
  };
  const authorize = (client_id: string, changes: Record<string, string> = {}): string => {
    const asked = { response_type: 'code', client_id, scope: 'store_full_access', state: 'x', ...changes };
    return `/authorize?${new URLSearchParams(asked).toString()}`;
  };
  return { ...server, emails, clients, cookieOf, authorize, userCode: await startDevice(server) };
}

export type Scene = Awaited<ReturnType<typeof startScene>>;
type Who = keyof Scene['emails'] | 'public';
type View = readonly [name: string, who: Who, address: (scene: Scene) => string, act?: (page: Page) => Promise<void>];

async function signInWrongly(page: Page): Promise<void> {
  await page.getByLabel('E-mail').fill('ada@example.com');
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
}

/** Sends the form without its required fields, so that the page shows errors. */
const send =
  (button: string) =>
  async (page: Page): Promise<void> => {
    await page
      .locator('main form')
      .first()
      .evaluate((form) => form.setAttribute('novalidate', ''));
    await page.getByRole('button', { name: button }).click();
    await page.waitForLoadState();
  };

async function makeApp(page: Page): Promise<void> {
  await page.getByLabel('Name', { exact: true }).fill('My own app');
  await page.getByLabel('Redirect addresses').fill('https://app.example.com/callback');
  await page.getByRole('button', { name: 'Create the app' }).click();
  await page.getByRole('heading', { level: 1 }).waitFor();
}

const elsewhere = { redirect_uri: 'https://studio.example.com/oauth/callback/' };

/** Every page a person can see, one line each: who sees it, its address, and their first actions there. */
// oxfmt-ignore
export const views: readonly View[] = [
  ['front page',               'public', () => '/'],
  ['sign-in',                  'public', () => '/sign-in?return_to=/authorize'],
  ['sign-in, wrong',           'public', () => '/sign-in', signInWrongly],
  ['consent, several stores',  'ada',    ({ authorize, clients }) => authorize(clients.full)],
  ['consent, store missing',   'ada',    ({ authorize, clients }) => authorize(clients.full), send('Allow')],
  ['consent, one store',       'solo',   ({ authorize, clients }) => authorize(clients.full)],
  ['consent, no store',        'none',   ({ authorize, clients }) => authorize(clients.full)],
  ['consent, 300 stores',      'many',   ({ authorize, clients }) => authorize(clients.full, { scope: 'store_full_access store_id_1000150' })],
  ['consent, unverified',      'solo',   ({ authorize, clients }) => authorize(clients.stranger)],
  ['consent, user',            'ada',    ({ authorize, clients }) => authorize(clients.full, { scope: 'user_full_access' })],
  ['device',                   'ada',    () => '/device'],
  ['device, malformed code',   'ada',    () => '/device?user_code=x'],
  ['device, consent',          'ada',    ({ userCode }) => `/device?user_code=${userCode}`],
  ['refusal',                  'public', ({ authorize, clients }) => authorize(clients.full, elsewhere)],
  ['refusal, for the owner',   'ada',    ({ authorize, clients }) => authorize(clients.full, elsewhere)],
  ['refusal, unknown client',  'public', ({ authorize }) => authorize(`unknown${'-x'.repeat(200)}`)],
  ['problem',                  'public', () => '/sign-out'],
  ['forgot password',          'public', () => '/forgot-password'],
  ['reset password',           'public', () => `/reset-password?token=${RESET_TOKEN}`],
  ['reset password, dead',     'public', () => '/reset-password?token=x'],
  ['link to a store',          'public', () => `/portal?token=${PORTAL_TOKEN}`],
  ['link to a store, other account', 'solo', () => `/portal?token=${PORTAL_TOKEN}`],
  ['link to a store, dead',    'public', () => '/portal?token=x'],
  ['invitation, new person',   'public', () => `/invitations/${OPEN_TOKEN}`],
  ['invitation, refused',      'public', () => `/invitations/${OPEN_TOKEN}`, send('Send the link')],
  ['invitation, bound',        'public', () => `/invitations/${BOUND_TOKEN}`],
  ['invitation, signed in',    'solo',   () => `/invitations/${OPEN_TOKEN}`],
  ['invitation, other account', 'solo',  () => `/invitations/${BOUND_TOKEN}`],
  ['invitation, member',       'ada',    () => `/invitations/${OPEN_TOKEN}`],
  ['invitation, dead',         'public', () => '/invitations/x'],
  ['account',                  'ada',    () => '/account'],
  ['account, nothing yet',     'none',   () => '/account'],
  ['password',                 'ada',    () => '/account/password'],
  ['password, refused',        'ada',    () => '/account/password', send('Change')],
  ['sign-up',                  'public', () => '/sign-up'],
  ['sign-up, refused',         'public', () => '/sign-up', send('Send the link')],
  ['sign-up, password',        'public', () => `/sign-up/confirm?token=${SIGN_UP_TOKEN}`],
  ['sign-up, dead',            'public', () => '/sign-up/confirm?token=x'],
  ['address',                  'ada',    () => '/account/email'],
  ['address, refused',         'ada',    () => '/account/email', send('Send the link')],
  ['address, confirm',         'ada',    () => `/account/email/confirm?token=${CHANGE_TOKEN}`],
  ['address, undo',            'public', () => `/undo-email?token=${UNDO_TOKEN}`],
  ['address, dead',            'public', () => '/undo-email?token=x'],
  ['erasure',                  'none',   () => '/account/erase'],
  ['erasure, refused',         'none',   () => '/account/erase', send('Erase the account')],
  ['erasure, only owner',      'many',   () => '/account/erase'],
  ['apps',                     'ada',    () => '/account/clients'],
  ['apps, none',               'none',   () => '/account/clients'],
  ['app, new',                 'ada',    () => '/account/clients/new'],
  ['app, refused',             'ada',    () => '/account/clients/new', send('Create the app')],
  ['app, made',                'many',   () => '/account/clients/new', makeApp],
  ['app',                      'ada',    ({ clients }) => `/account/clients/${clients.full}`],
  ['app, to be deleted',       'ada',    ({ clients }) => `/account/clients/${clients.full}/delete`],
  ['app page',                 'public', ({ clients }) => `/apps/${clients.full}`],
  ['app page, signed in',      'solo',   ({ clients }) => `/apps/${clients.full}`],
  ['app page, preview',        'ada',    ({ clients }) => `/apps/${clients.stranger}`],
  ['install link, unverified', 'public', ({ clients }) => `/apps/${clients.stranger}/install`],
  ['install link, none',       'public', ({ client }) => `/apps/${client.client_id}/install`],
  ['console',                  'operator', () => '/operator'],
  ['console, stores',          'operator', () => '/operator/stores'],
  ['console, no stores',       'operator', () => '/operator/stores?q=no-such-store'],
  ['console, events',          'operator', () => '/operator/events?q=transaction'],
  ['console, no such events',  'operator', () => '/operator/events?q=nothing'],
  ['console, store',           'operator', ({ alpha }) => `/operator/stores/${alpha}`],
  ['console, app',             'operator', ({ clients }) => `/operator/apps/${clients.full}`],
  ['console, no reason',       'operator', ({ alpha }) => `/operator/stores/${alpha}`, send('Suspend Alpha')],
  ['console, suspended',       'operator', ({ other }) => `/operator/apps/${other.client_id}`],
  ['console, person',          'operator', ({ adaId }) => `/operator/people/${adaId}`],
  ['console, audit',           'operator', () => '/operator/audit'],
  ['console, audit of store',  'operator', ({ alpha }) => `/operator/audit?by=store_id&q=${alpha}`],
  ['reference, how to begin',  'public', () => '/docs'],
  ['reference, events',        'public', () => '/docs/events'],
  ['reference, one event',     'ada',    () => '/docs/events/transaction/created'],
  ['reference, receiving',     'public', () => '/docs/receiving'],
  ['reference, a document',    'public', () => '/docs/webhooks'],
  ['reference, tables',        'ada',    () => '/docs/operating'],
  ['reference, relations',     'ada',    () => '/rels'],
  ['reference, webhook',       'public', () => '/rels/webhook'],
  ['reference, listing',       'public', () => '/rels/clients'],
  ['reference, endpoint',      'public', () => '/rels/token'],
];
