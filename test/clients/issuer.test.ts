/** Clients that check the issuer (RFC 9207), and their reaction to an answer that another server could have sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { walk as oauth4webapi } from './node/oauth4webapi.ts';
import { walk as openidClient } from './node/openid-client.ts';
import { openScene, type App } from './oauth-flow.ts';

const scene = await openScene();
const app = await scene.confidential('basic');

type Change = (answer: URLSearchParams) => void;

/** The person returns with an answer that an attacker has changed on the way. */
const tampered = (change: Change): App => ({
  ...app,
  visit: async (address) => {
    const back = await app.visit(address);
    change(back.searchParams);
    return back;
  },
});

async function tokensIn(): Promise<number> {
  const [row] = await scene.server.sql<{ count: number }[]>`select count(*) from access_token`;
  return row?.count ?? NaN;
}

/** openid-client rethrows errors of oauth4webapi, on which it is built. */
const reasonOf = ({ message, cause }: Error): string => (cause instanceof Error ? cause.message : message);

const changes: readonly (readonly [what: string, change: Change, reason: string])[] = [
  [
    'another iss',
    (answer) => answer.set('iss', 'https://evil.example'),
    'unexpected "iss" (issuer) response parameter value',
  ],
  [
    'no iss, although the metadata announces it',
    (answer) => answer.delete('iss'),
    'response parameter "iss" (issuer) missing',
  ],
  ['another state', (answer) => answer.set('state', 'another'), 'unexpected "state" response parameter value'],
];

for (const [library, walk] of [
  ['openid-client', openidClient],
  ['oauth4webapi', oauth4webapi],
] as const) {
  for (const [what, change, reason] of changes) {
    test(`${library} rejects an answer with ${what}`, async () => {
      const before = await tokensIn();
      const refusal = await walk(tampered(change)).then(() => 'The answer was accepted', reasonOf);
      assert.equal(refusal, reason);
      assert.equal(await tokensIn(), before, 'the code was not sent anywhere');
    });
  }
}
