/**
 * The authorization server behind a real socket and a real database, two clients, two people and their stores, and a
 * browser that keeps cookies, reads forms and follows no redirect by itself. The clock stands still unless a test moves it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { after } from 'node:test';
import { createPasswords, type PasswordCost, createUser } from '#identity/accounts/users.ts';
import { openPool } from '#db/pool.ts';
import type { Keys } from '#core/keys.ts';
import { createLog, type Log } from '#core/log.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember, createStore } from '#stores/store.ts';
import { startApp, type Role } from '#server/app.ts';
import { readConfig } from '#config/config.ts';
import { testDatabase, MIDSUMMER, MIDSUMMER_TEMPLATE } from '../setup/database.ts';
import { freePort } from '../setup/free-port.ts';
import { respond, send } from '../setup/send.ts';
import { IS_DIVIDED } from '../setup/suite-handle.ts';
import { divideSuite } from '../setup/suite-map.ts';
import { openPools } from '../setup/store-pools.ts';
import { LOW_COST } from '../setup/passwords.ts';
import { BriefPace } from '../setup/clock.ts';

export const ISSUER = 'http://auth.example.test';
export const REDIRECT = 'https://app.example.com/cb?keep=1';
export const PASSWORD = 'correct horse battery';
/** Connections of the server to its database. */
export const CONNECTIONS = 10;

const unescape = (text: string): string =>
  text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<').replaceAll('&amp;', '&');

type Form = Record<string, string> | [name: string, value: string][];

export type Page = { status: number; headers: Headers; text: string; location: string | null };

/** The value of one field of a form, and the form's action. */
export function readForm({ text }: Page) {
  const [, action = ''] = /<form method="post" action="([^"]*)"/.exec(text) ?? [];
  const [, nonce = ''] = /name="nonce" value="([^"]*)"/.exec(text) ?? [];
  const stores = [...text.matchAll(/name="store"\s+value="(\d+)"[^>]*?(checked)?\s*\/>/g)].map(([, id, checked]) => ({
    id: Number(id),
    isChosen: checked !== undefined,
  }));
  const checked = [...text.matchAll(/name="permission"\s+value="([^"]+)"\s+checked/g)].map(([, name = '']) => name);
  return { action: unescape(action), nonce, stores, checked };
}

/** `confirms`: a person who is asked to confirm a sensitive change enters the password. */
export function createBrowser(origin: string, { confirms = true } = {}) {
  const jar = new Map<string, string>();
  /** The `Cookie` header; undefined without cookies. */
  const cookie = () => (jar.size === 0 ? undefined : [...jar].map((pair) => pair.join('=')).join('; '));
  const keep = (set: string): void => {
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
    if (/; Max-Age=0(;|$)/.test(set)) jar.delete(name);
    else jar.set(name, value);
  };
  const ask = async (method: string, path: string, form?: Form, headers = {}): Promise<Page> => {
    const response = await send(origin + path, {
      method,
      headers: {
        ...(jar.size === 0 ? {} : { Cookie: cookie() ?? '' }),
        ...(form === undefined ? {} : { 'Sec-Fetch-Site': 'same-origin' }),
        ...headers,
      },
      ...(form === undefined ? {} : { body: new URLSearchParams(form) }),
    });
    for (const set of response.headers.getSetCookie()) keep(set);
    return { ...response, location: response.headers.get('location') };
  };
  const open = (path: string, headers = {}) => ask('GET', path, undefined, headers);
  const post = async (path: string, form: Form, headers = {}): Promise<Page> => {
    const response = await ask('POST', path, form, headers);
    const isAsked = response.status === 403 && response.text.includes('name="verification_password"');
    if (!confirms || !isAsked) return response;
    const entries: [string, string][] = Array.isArray(form) ? form : Object.entries(form);
    return ask('POST', path, [...entries, ['verification_password', PASSWORD]], headers);
  };
  const signIn = (email: string, password = PASSWORD) => post('/sign-in', { email, password });
  /** Opens the consent page and submits it; `allowed` are the limited scopes that stay checked, by default all. */
  const consent = async (
    query: URLSearchParams | Record<string, string>,
    fields: Record<string, string> = {},
    allowed?: readonly string[],
  ) => {
    const { action, nonce, stores, checked } = readForm(
      await open(`/authorize?${new URLSearchParams(query).toString()}`),
    );
    const store = stores[0] === undefined ? {} : { store: String(stores[0].id) };
    const permissions = (allowed ?? checked).map((name): [string, string] => ['permission', name]);
    const form = [...Object.entries({ nonce, decision: 'allow', ...store, ...fields }), ...permissions];
    return post(action, form);
  };
  return { open, post, signIn, consent, head: (path: string) => ask('HEAD', path), cookie, jar };
}

export type Browser = ReturnType<typeof createBrowser>;

function shop(name: string) {
  const domain = `${name.toLowerCase()}.example.com`;
  return { name, domain, email: 'shop@example.com', timeZone: 'UTC', now: MIDSUMMER };
}

const ofTimer = new AsyncLocalStorage<true>();

/** Marks what a timer runs. */
class MarkingPace extends BriefPace {
  override repeat(ms: number, run: () => unknown, signal: AbortSignal): Promise<void> {
    return super.repeat(ms, () => ofTimer.run(true, run), signal);
  }
}

/** Statements beside those of the request: timers look for work, and with several databases requests read the outbox. */
const isBeside = (statement: string): boolean =>
  ofTimer.getStore() === true || (IS_DIVIDED && /\bshard_database\b/.test(statement));

type Options = {
  /** The issuer is the address of the socket, for clients that discover it. */
  isResolvable?: boolean;
  /** The host of a resolvable issuer: a passkey needs a name, not an IP address. */
  host?: string;
  /** The destination of the server's log; nowhere by default. */
  log?: Log;
  roles?: readonly Role[];
  secretKeys?: Keys;
  /** Next to nothing by default. */
  passwordCost?: PasswordCost;
};

/** Starts all that `halcyon serve` serves, over a database of its own; `env` as the operator would set it. */
async function openServer(env: Readonly<Record<string, string>>, options: Options) {
  const { isResolvable = false, host = '127.0.0.1', log = createLog('silent'), roles = ['serve'] } = options;
  const secretKeys = options.secretKeys ?? [Buffer.alloc(32, 7)];
  const closers: (() => Promise<unknown>)[] = [];
  // Registered before the first await, while node:test still assigns the hook to its test.
  after(async () => {
    for (const close of closers.toReversed()) await close();
  });
  const ends = { after: (drop: () => Promise<void>) => void closers.push(drop) };
  const { sql: admin, address } = await testDatabase(ends, MIDSUMMER_TEMPLATE);
  await divideSuite(admin, secretKeys[0]);
  // Stores in another database are not in a copy of this template.
  if (IS_DIVIDED) await admin`create table event_some_day partition of event default`;
  const statements: string[] = [];
  const onQuery = (statement: string) => void (isBeside(statement) || statements.push(statement));
  const clock = { time: MIDSUMMER };
  const firstPort = await freePort();
  const issuer = isResolvable ? `http://${host}:${firstPort}` : ISSUER;
  const start = async (port: number, keys: Keys, changes: Readonly<Record<string, string>> = {}): Promise<string> => {
    const sql = openPool(address, { connections: CONNECTIONS, applicationName: 'test-oauth', onQuery });
    closers.push(() => sql.end({ timeout: 0 }));
    const given = {
      PORT: String(port),
      BASE_URL: issuer,
      AUTH_URL: issuer,
      API_RATE_PER_SECOND: '0',
      RETENTION_DAYS: '3650',
      // Off by default, and in the table of routes of the tests.
      MCP: '1',
      ...env,
      ...changes,
    };
    const config = readConfig(given, process.cwd());
    const app = await startApp({
      config,
      sql,
      direct: sql,
      secretKeys: keys,
      clock: { now: () => clock.time, monotonicMs: () => performance.now() },
      pace: new MarkingPace(),
      openPools,
      random: () => 0.5,
      passwordCost: options.passwordCost ?? LOW_COST,
      log,
      roles,
    });
    closers.push(() => app.stop());
    return `http://${host}:${port}`;
  };
  const startSecond = async (
    keys: Keys = secretKeys,
    changes: Readonly<Record<string, string>> = {},
  ): Promise<string> => start(await freePort(), keys, changes);
  return { origin: await start(firstPort, secretKeys), startSecond, sql: admin, address, clock, statements };
}

export async function startAuthorizationServer(env: Readonly<Record<string, string>> = {}, options: Options = {}) {
  const server = await openServer(env, options);
  const { origin, startSecond, sql, address, clock, statements } = server;
  const passwords = createPasswords({ hashesAtOnce: 2, cost: options.passwordCost ?? LOW_COST });
  const now = MIDSUMMER;
  const ada = { email: 'ada@example.com', password: PASSWORD, now };
  const { id: adaId } = await createUser(sql, passwords, ada);
  const { id: bobId } = await createUser(sql, passwords, { ...ada, email: 'bob@example.com' });
  const { id: alpha } = await createStore(sql, shop('Alpha'));
  const { id: beta } = await createStore(sql, shop('Beta'));
  const { id: foreign } = await createStore(sql, shop('Foreign'));
  await addMember(sql, { storeId: alpha, userId: adaId, role: 'owner', now });
  await addMember(sql, { storeId: beta, userId: adaId, role: 'member', now });
  const client = await createClient(sql, { name: 'Mailer', redirectUris: [REDIRECT], trusted: false, now });
  const redirectUris = ['https://other.example.com/cb', 'https://other.example.com/cb2'];
  const other = await createClient(sql, { name: 'Other', redirectUris, trusted: false, now });
  const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now });

  /** A valid request to /authorize; a member of `changes` that is undefined is left out. */
  const asking = (changes: Record<string, string | undefined> = {}): Record<string, string> => {
    const all = {
      response_type: 'code',
      client_id: client.client_id,
      scope: 'store_full_access',
      state: 'a state',
      redirect_uri: REDIRECT,
      ...changes,
    };
    return Object.fromEntries(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined));
  };
  const token = async (form: Record<string, string> | string, headers: Record<string, string> = {}) => {
    const type = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const body = typeof form === 'string' ? form : new URLSearchParams(form).toString();
    const response = await send(`${origin}/token`, { method: 'POST', headers: { ...type, ...headers }, body });
    const { status, headers: got, text } = response;
    return { status, headers: got, body: JSON.parse(text) as Record<string, unknown> };
  };
  const browser = createBrowser(origin);
  await browser.signIn(ada.email);
  /** A new code of Ada's for her first store. */
  const newCode = async (changes: Record<string, string | undefined> = {}): Promise<string> => {
    const { location } = await browser.consent(asking(changes));
    const code = new URL(location ?? '').searchParams.get('code');
    if (code === null) throw new Error(`No code: ${location}`);
    return code;
  };
  const redeem = (code: string, changes: Record<string, string> = {}) =>
    token({ grant_type: 'authorization_code', code, redirect_uri: REDIRECT, ...client, ...changes });
  const read = (storeId: number, accessToken: string) =>
    respond(`${origin}/stores/${storeId}`, {
      headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${accessToken}` },
    });
  const nowIs = () => clock.time;
  const wait = (ms: number) => void (clock.time = new Date(clock.time.getTime() + ms));
  const people = { adaId, ada: ada.email, bobId, bob: 'bob@example.com' };
  const stores = { alpha, beta, foreign };
  const clients = { client, other, platform };
  return {
    origin,
    /** Another server over the same database, with the same clock and, by default, keys and settings; returns its origin. */
    startSecond,
    sql,
    address,
    statements,
    browser,
    asking,
    token,
    newCode,
    redeem,
    read,
    wait,
    now: nowIs,
    ...people,
    ...stores,
    ...clients,
  };
}
