/**
 * Random sequences of actions of clients and people (approve, deny, redeem, refresh, lose a response, revoke, leave a store, be disabled,
 * elapsed time), by several of them, against a model: after each step every access token ever issued answers exactly
 * as in the model.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { AsyncCommand } from 'fast-check';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember } from '#stores/store.ts';
import * as commands from './model/commands.ts';
import { CLIENTS, newModel, STORES, USERS, type ClientName, type Model, type UserName } from './model/model.ts';
import { amountOf } from '../setup/amount.ts';
import { send } from '../setup/send.ts';
import { createBrowser, startAuthorizationServer } from './oauth-server.ts';

const RUNS = amountOf('model', { all: 60, part: 15 });
const COMMANDS_MAX = 40;
const VERIFIER = 'v'.repeat(43);
const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url');

const server = await startAuthorizationServer();
const { sql, origin } = server;
const storeIds = { alpha: server.alpha, beta: server.beta };
const users = {
  ada: { id: server.adaId, email: server.ada, browser: createBrowser(origin) },
  bob: { id: server.bobId, email: server.bob, browser: createBrowser(origin) },
};

const details = { redirectUris: ['https://model.example/cb'], trusted: false, now: new Date() };
const [redirectUri = ''] = details.redirectUris;
const credentials: Record<ClientName, Record<string, string>> = {
  stable: await createClient(sql, { ...details, name: 'Stable' }),
  rotating: await createClient(sql, { ...details, name: 'Rotating', rotatesRefreshTokens: true }),
  public: await createClient(sql, { isPublic: true, ...details, name: 'Public' }),
};

async function authorize(user: UserName, client: ClientName, scope: string, fields: Record<string, string>) {
  const { browser, email } = users[user];
  const pkce = client === 'public' ? { code_challenge: CHALLENGE, code_challenge_method: 'S256' } : {};
  const { client_id: clientId } = credentials[client];
  const asking = { ...server.asking({ client_id: clientId, redirect_uri: redirectUri, scope }), ...pkce };
  // A user who was disabled meanwhile has to sign in again.
  if ((await browser.open(`/authorize?${new URLSearchParams(asking).toString()}`)).status !== 200)
    await browser.signIn(email);
  const { location } = await browser.consent(asking, fields);
  return new URL(location ?? '').searchParams;
}

const real: commands.Real = {
  approve: async (user, client, store) => {
    const scope = store === null ? 'user_full_access' : 'store_full_access';
    const fields = store === null ? {} : { store: String(storeIds[store]) };
    return (await authorize(user, client, scope, fields)).get('code') ?? '';
  },
  deny: async (user, client) => (await authorize(user, client, 'user_full_access', { decision: 'deny' })).get('error'),
  redeem: (client, code) => {
    const verifier = client === 'public' ? { code_verifier: VERIFIER } : {};
    const form = { grant_type: 'authorization_code', code, redirect_uri: redirectUri };
    return server.token({ ...form, ...verifier, ...credentials[client] });
  },
  refresh: (client, token) =>
    server.token({ grant_type: 'refresh_token', refresh_token: token, ...credentials[client] }),
  revoke: async (client, token) => {
    const body = new URLSearchParams({ token, ...credentials[client] });
    return (await send(`${origin}/revoke`, { method: 'POST', body })).status;
  },
  read: async (store, token) => (await server.read(storeIds[store], token)).status,
  setMember: async (user, store, joins) => {
    const member = { storeId: storeIds[store], userId: users[user].id };
    if (joins) await addMember(sql, { ...member, role: 'member', now: new Date() });
    else await sql`delete from membership where store_id = ${member.storeId} and user_id = ${member.userId}`;
  },
  setDisabled: async (user, isDisabled) => {
    await sql`update users set date_disabled = ${isDisabled ? new Date() : null} where id = ${users[user].id}`;
  },
  wait: server.wait,
};

async function reset(): Promise<void> {
  await sql`update users set date_disabled = null`;
  await sql`delete from membership`;
  for (const [user, store] of [
    ['ada', 'alpha'],
    ['ada', 'beta'],
    ['bob', 'beta'],
  ] as const)
    await real.setMember(user, store, true);
}

const user = fc.constantFrom(...USERS);
const client = fc.constantFrom(...CLIENTS);
const store = fc.constantFrom(...STORES);
/** Mostly the client itself: otherwise nearly everything is rejected, and the run proves nothing. */
const by = fc.oneof({ weight: 6, arbitrary: fc.constant('its own' as const) }, { weight: 1, arbitrary: client });
const few = fc.constantFrom(0, 0, 1, 1, 2);
/** A reused code ends everything, so mostly it is the newest. */
const newest = fc.constantFrom(0, 0, 0, 0, 0, 1);
// No sum of the short ones is 30 seconds to the millisecond.
const pause = fc.constantFrom(100, 4_100, 7_300, 7_300, 7_300, 31_000, 7_201_000);

const approve = fc.tuple(user, client, fc.option(store)).map((given) => commands.approve(...given));
const redeem = fc.tuple(newest, by).map((given) => commands.redeem(...given));
const refresh = fc.tuple(few, by, fc.boolean()).map((given) => commands.refresh(...given));
const kind = fc.constantFrom('access' as const, 'refresh' as const);

const possible = fc.commands(
  [
    // Getting a token takes many steps, so these are likelier than those that end one.
    ...Array.from({ length: 3 }, () => approve),
    ...Array.from({ length: 3 }, () => redeem),
    ...Array.from({ length: 6 }, () => refresh),
    few.map(commands.find),
    pause.map(commands.wait),
    pause.map(commands.wait),
    fc.tuple(user, client).map((given) => commands.deny(...given)),
    fc.tuple(kind, few, by).map((given) => commands.revoke(...given)),
    fc.tuple(user, store, fc.boolean()).map((given) => commands.setMember(...given)),
    fc.tuple(user, fc.boolean()).map((given) => commands.setDisabled(...given)),
  ],
  { maxCommands: COMMANDS_MAX, size: 'max' },
);

/** Each run begins with two grants, so that there is something to use and to end. */
const own = commands.redeem(0, 'its own');

/** Returns what happened. */
async function runAgainstModel(sequence: Iterable<AsyncCommand<Model, commands.Real>>): Promise<readonly string[]> {
  await reset();
  const model = newModel();
  await fc.asyncModelRun(() => ({ model, real }), sequence);
  return model.seen;
}

test('a code and its tokens give the access of the model through each step of their lives', async () => {
  const seen = await runAgainstModel([
    commands.approve('ada', 'stable', 'alpha'),
    own,
    commands.refresh(0, 'its own'),
    commands.approve('bob', 'rotating', null),
    own,
    commands.refresh(0, 'its own', true),
    commands.wait(7_201_000),
    commands.refresh(0, 'its own', true),
    commands.refresh(0, 'its own'),
    commands.refresh(1, 'its own'),
    commands.redeem(1, 'its own'),
  ]);
  assert.deepEqual(seen, [
    'code redeemed',
    'refreshed',
    'code redeemed',
    'rotated',
    'rotation retried',
    'rotation retried',
    'rotated token reused',
    'code reused',
  ]);
});

test('after any sequence of actions of clients and people every token gives the access of the model and no other', async () => {
  await fc.assert(
    fc.asyncProperty(approve, approve, possible, async (first, second, sequence) => {
      await runAgainstModel([first, own, second, own, ...sequence]);
    }),
    { numRuns: RUNS, endOnFailure: true },
  );
});
