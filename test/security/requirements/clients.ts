import type { Clause } from './clause.ts';

export const clients: readonly Clause[] = [
  {
    clause: 'Basic and body',
    tests: [
      "test/security/client-auth.test.ts > ${what} is ${expected === AUTHENTICATED ? 'taken' : 'refused'}",
      'test/journeys/oauth.test.ts > credentials by Basic are accepted, with a client_id in the body too, and the exchange takes two statements',
      'test/clients/oauth-flows.test.ts > ${library} completes the whole flow ${kinds[method]}',
    ],
    guards: 'secret',
    mutations: ['client-secret-not-compared'],
  },
  {
    clause: 'both at once refused',
    tests: [
      'test/security/two-credentials.test.ts > ${what} of one client are rejected at ${path}',
      'test/security/two-credentials.test.ts > a token of the platform beside a secret is rejected at /introspect',
      'test/journeys/oauth-errors.test.ts > /token with ${what} is ${error}',
    ],
    guards: 'secret',
    mutations: ['two-secrets-accepted'],
  },
  {
    clause: 'unknown client and wrong secret are indistinguishable in body and in time',
    tests: [
      'test/journeys/oauth-errors.test.ts > an unknown client and a wrong secret get the same answer, byte for byte',
      'test/security/client-auth.test.ts > an unknown client and a wrong secret cost the same statements and get the same answer',
      'test/security/client-auth.test.ts > guesses at unknown clients are slowed in the same way',
      'test/security/timing.test.ts > an unknown client takes as long as a wrong secret',
      'test/security/timing.test.ts > an unknown address takes as long at sign-in as a wrong password',
      'test/security/sign-in.test.ts > an unknown address and a wrong password get the same page, with the address kept',
    ],
    guards: 'secret',
    mutations: ['unknown-client-not-throttled', 'unknown-account-not-hashed'],
  },
  {
    clause: 'a confidential client needs its secret on refresh and revoke too',
    tests: [
      "test/security/client-auth.test.ts > ${what} is ${expected === AUTHENTICATED ? 'taken' : 'refused'}",
      'test/security/codes.test.ts > a refresh token is rejected for another client',
      'test/security/revoke.test.ts > a confidential client needs its secret, also to revoke',
    ],
    guards: 'secret',
    mutations: [
      'confidential-client-without-secret',
      'refresh-token-of-another-client',
      'revoke-ends-refresh-token-of-others',
      'revoke-ends-access-token-of-others',
    ],
  },
  {
    clause: 'secret rotation with overlap',
    tests: [
      'test/security/client-secrets.test.ts > after a rotation the old and the new secret work, later only the new one',
      'test/security/client-secrets.test.ts > a further rotation ends no secret before its time, whichever of them the app uses',
      'test/security/client-secrets.test.ts > a leaked secret ends at once with all before it',
      'test/security/client-secrets.test.ts > the old secret ends at once if the owner asks for it',
      'test/security/client-secrets.test.ts > a double click creates one new secret, and the old one stays valid',
      'test/journeys/oauth.test.ts > during a rotation both client secrets work until their ends',
    ],
    guards: 'secret',
    mutations: [
      'replaced-secret-outlives-overlap',
      'leaked-secret-keeps-older-ones',
      'rotation-changes-older-expiry',
      'secret-rotated-by-double-click',
    ],
  },
  {
    clause: 'guessing is throttled without locking out the owner, and counters survive a restart',
    tests: [
      'test/security/client-auth.test.ts > after twenty wrong secrets the client gets a 429, and may continue after that time',
      'test/security/client-auth.test.ts > the right secret works from an address that has guessed too often',
      'test/security/client-auth.test.ts > the throttle is shared with other processes, also with later ones',
      'test/security/throttle-sign-in.test.ts > guesses at an account from ever new addresses are rejected after ten, for the right password too',
      'test/security/throttle-sign-in.test.ts > the owner can sign in from a browser that has signed in before, whatever others do',
      'test/security/throttle-sign-in.test.ts > a try that was not checked for lack of capacity uses up nothing',
      'test/security/throttle-sign-in.test.ts > a device cookie from before a new password gives no tries',
      'test/security/throttle-sign-in.test.ts > the count is shared by all processes',
      'test/security/throttle.test.ts > the count holds across processes and restarts',
    ],
    guards: 'secret',
    mutations: [
      'secret-guessing-not-throttled',
      'device-cookie-not-verified',
      'device-cookie-never-expires',
      'device-cookie-survives-password-change',
      'device-attempts-without-common-limit',
      'unchecked-try-counted',
      'rejected-try-counted',
      'throttle-limit-not-enforced',
    ],
  },
  {
    clause: 'forwarded addresses are trusted only from configured proxies',
    tests: [
      'test/security/proxies.test.ts > without trusted proxies a forwarded address is ignored',
      'test/security/proxies.test.ts > a trusted proxy states the address of the client',
      'test/security/proxies.test.ts > of a chain the last address that no trusted proxy wrote counts, whatever comes before it',
      'test/security/client-auth.test.ts > a forwarded address is ignored without a trusted proxy',
    ],
    guards: 'secret',
    mutations: ['forwarded-address-trusted'],
  },
];
