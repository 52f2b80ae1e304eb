/** An unknown subject takes as long as a wrong secret: response times do not reveal which accounts and clients exist. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PASSWORD_COST } from '#identity/accounts/users.ts';
import { createBrowser, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer({ TRUSTED_PROXIES: '127.0.0.1' }, { passwordCost: PASSWORD_COST });
const { origin, client, ada } = server;

/** Each request comes from an address of its own, so that neither is throttled. */
let places = 0;
function newPlace() {
  places += 1;
  return {
    'X-Forwarded-For': `10.${Math.floor(places / 62_500)}.${Math.floor(places / 250) % 250}.${(places % 250) + 1}`,
  };
}

/** Returns the processor time of the work in this process, which is also the server: other processes do not change it. */
async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const start = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(start);
  return user + system;
}
/** The median of the cheaper half: leaves out garbage collection and compilation. */
const quartile = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 2] ?? NaN;

/** Returns how much more processor time the first takes: alternating, so that warm-up affects both. */
async function ratioOf(rounds: number, one: () => Promise<unknown>, other: () => Promise<unknown>): Promise<number> {
  const times: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    times[0].push(await timeOf(one));
    times[1].push(await timeOf(other));
  }
  return quartile(times[0]) / quartile(times[1]);
}

test('an unknown address takes as long at sign-in as a wrong password', async () => {
  let people = 0;
  const signIn = (email: string) => createBrowser(origin).post('/sign-in', { email, password: 'wrong' }, newPlace());
  const unknown = () => signIn(`nobody${(people += 1)}@example.com`);
  // An account has ten tries before it is rejected without a hash.
  const ratio = await ratioOf(9, unknown, () => signIn(ada));
  // Without the hash, which is most of the work, it takes a fraction.
  assert.ok(ratio > 0.5 && ratio < 2, `${ratio.toFixed(2)} times as long`);
});

test('an unknown client takes as long as a wrong secret', async () => {
  const ask = async (clientId: string): Promise<void> => {
    const body = new URLSearchParams({ grant_type: 'refresh_token', client_id: clientId, client_secret: 'x' });
    await (await fetch(`${origin}/token`, { method: 'POST', headers: newPlace(), body })).text();
  };
  let strangers = 0;
  const unknown = () => ask((strangers += 1).toString(16).padStart(24, '0'));
  const ratio = await ratioOf(201, unknown, () => ask(client.client_id));
  // Coarse: client-auth.test.ts proves that both cost the same statements.
  assert.ok(ratio > 0.5 && ratio < 2, `${ratio.toFixed(2)} times as long`);
});
