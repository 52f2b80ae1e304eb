import type { Clause } from './clause.ts';

export const codes: readonly Clause[] = [
  {
    clause: '29 s works, 31 s does not (injected clock)',
    tests: ['test/security/codes.test.ts > a code works after 29 seconds and not after 31'],
    guards: 'code',
    mutations: ['code-never-expires'],
  },
  {
    clause: '50 parallel redemptions over two processes give exactly one 200',
    tests: [
      'test/faults/two-servers.test.ts > of fifty redemptions of a code in two processes one succeeds, and no other token is left',
      'test/security/codes.test.ts > fifty parallel redemptions of one code give exactly one 200',
    ],
    guards: 'code',
    mutations: ['code-used-twice'],
  },
  {
    clause:
      'reuse by the same client (also after the 30 s) revokes the tokens issued from that code, by anyone else changes nothing',
    tests: [
      'test/security/codes.test.ts > a code that its client presents again ends both tokens, also after the 30 seconds',
      'test/security/codes.test.ts > a code presented by another client is rejected, and still works for its own',
      'test/security/codes.test.ts > a used code with another redirect_uri or verifier is rejected without ending anything',
      'test/security/codes.test.ts > a reused code is in the audit once, with the grant that it ended',
      'test/security/model.test.ts > after any sequence of actions of clients and people every token gives the access of the model and no other',
    ],
    guards: 'code',
    mutations: ['reused-code-revokes-nothing', 'code-of-another-client'],
  },
  {
    clause: 'a wrong client or verifier does not burn it',
    tests: [
      'test/security/codes.test.ts > a code presented by another client is rejected, and still works for its own',
      'test/security/codes.test.ts > a code with a challenge is redeemed by its verifier only',
      'test/security/codes.test.ts > redirect_uri is required at the token endpoint and is the same octet for octet',
    ],
    guards: 'code',
    mutations: ['wrong-verifier-revokes-grant'],
  },
  {
    clause: 'PKCE S256, wrong/missing verifier, verifier without challenge, `plain` refused',
    tests: [
      'test/security/codes.test.ts > a code with a challenge is redeemed by its verifier only',
      'test/security/codes.test.ts > a verifier for a code without a challenge is rejected',
      'test/security/codes.test.ts > a public client redeems a code with its verifier, and never one without a challenge',
      'test/security/authorize.test.ts > a public client must send a challenge',
      'test/journeys/oauth-errors.test.ts > /authorize with ${what} redirects to the client with the error',
      'src/identity/oauth/protocol-requests.test.ts > the example of RFC 7636 verifies',
      'src/identity/oauth/protocol-requests.test.ts > a wrong, missing, malformed or unexpected verifier does not verify',
      'src/identity/oauth/protocol-requests.test.ts > a challenge requires S256, and a method requires a challenge',
    ],
    guards: 'code',
    mutations: [
      'pkce-verifier-not-checked',
      'pkce-challenge-not-required',
      'public-code-without-pkce',
      'plain-pkce-challenge-accepted',
    ],
  },
];
