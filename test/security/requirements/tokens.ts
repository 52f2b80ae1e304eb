import type { Clause } from './clause.ts';

export const tokens: readonly Clause[] = [
  {
    clause:
      'a dump of the database and the logs contain no usable token, code, secret or session (grep for known values)',
    tests: [
      'test/security/at-rest.test.ts > no secret is in the database, in the log or in the output of the process',
      'test/security/at-rest.test.ts > the search finds half of a secret in every spelling',
      'test/security/misplaced-secrets.test.ts > a secret is repeated neither by an error nor in the log: ${place}',
      'test/journeys/webhook-keys.test.ts > the key is nowhere in the row',
      'test/security/throttle.test.ts > the database does not reveal the counted subjects',
      'src/mail/mailer.test.ts > the log says that a mail failed, and contains none of its content',
    ],
    guards: 'secret',
    mutations: [
      'token-not-hashed',
      'session-id-not-hashed',
      'webhook-key-not-encrypted',
      'request-headers-logged',
      'request-path-logged',
      'mail-error-logged',
    ],
  },
  {
    clause: '7200 s ± 1',
    tests: [
      'test/security/bearer.test.ts > an access token works for 7200 seconds, and is reported as expired afterwards',
      'test/security/introspect.test.ts > a token is inactive the moment it expires',
    ],
    guards: 'secret',
    mutations: ['bearer-never-expires'],
  },
  {
    clause: 'expired → the exact body',
    tests: [
      'test/security/bearer.test.ts > an access token works for 7200 seconds, and is reported as expired afterwards',
    ],
  },
  {
    clause: 'header and body together → `invalid_request`',
    tests: [
      'test/security/two-credentials.test.ts > an access token in the header and in the body is invalid_request',
      'test/security/two-credentials.test.ts > an access token in the query is invalid_request, with one in the header and without',
      'test/security/two-credentials.test.ts > an access token in the body alone does not authenticate',
    ],
    guards: 'secret',
    mutations: ['token-in-body-ignored', 'token-in-query-ignored'],
  },
  {
    clause: '50 parallel refreshes → no 500',
    tests: [
      'test/journeys/oauth.test.ts > fifty parallel refreshes all succeed',
      'test/security/refresh.test.ts > fifty parallel refreshes over two servers all succeed with one and the same successor',
      'test/faults/two-servers.test.ts > fifty refreshes of a stable token in two processes all return valid tokens, and the same refresh token',
      'test/faults/two-servers.test.ts > fifty refreshes of a rotating token in two processes return one successor, and it works',
    ],
  },
  {
    clause: 'scope can only narrow and never drops the store',
    tests: [
      'test/journeys/oauth.test.ts > the scope of a refresh may only repeat the granted one, and the store always stays',
      'test/security/refresh.test.ts > a rejected scope rotates nothing',
    ],
    guards: 'secret',
    mutations: ['refresh-widens-the-scope'],
  },
  {
    clause: 'a token for store A reaches nothing of store B (a matrix over every link and every method)',
    tests: [
      'test/security/tokens-matrix.test.ts > ${method} ${route.path} is rejected for callers without access to the store',
      'test/security/tokens-matrix.test.ts > ${method} ${path} shows and changes nothing of a store that the token is not for',
      'test/security/tokens-matrix.test.ts > the same addresses answer a member of the store, or the platform',
      'test/security/bearer.test.ts > access to the account excludes stores of other people',
      'test/security/tenancy.test.ts > ${method} with another store’s token is a 404 at every link of the graph, and changes nothing',
      'test/security/tenancy.test.ts > a signed-in person of another store has no access either',
    ],
    guards: 'secret',
    mutations: ['store-token-reaches-other-stores', 'webhook-access-not-checked', 'consent-for-foreign-store'],
  },
  {
    clause:
      'revoke, password change, user disabled, member removed from the store, client deleted take effect at the next request, in every process',
    tests: [
      'test/security/revocation-in-every-process.test.ts > a revoked token is rejected at the next request in every process',
      'test/security/revocation-in-every-process.test.ts > apps that a new password disconnects are rejected at the next request in every process',
      'test/security/revocation-in-every-process.test.ts > the token of a user who is disabled is rejected at the next request in every process',
      'test/security/revocation-in-every-process.test.ts > the token of a user who is removed from the store is rejected at the next request in every process',
      'test/security/revocation-in-every-process.test.ts > the token of a deleted client is rejected at the next request in every process',
      'test/security/password-change.test.ts > every other session ends at the next request in every process, and this one gets a new id',
      'test/security/sign-in.test.ts > the password of a disabled user is wrong, and their sessions end, in every process',
      'test/security/connected-apps.test.ts > a revoked app ends at the next request, in every process, and leaves the list',
      'test/security/bearer.test.ts > a platform token ends when its client is no longer trusted',
    ],
    guards: 'secret',
    mutations: [
      'bearer-of-a-revoked-grant',
      'bearer-of-a-disabled-user',
      'membership-not-checked',
      'refresh-of-a-disabled-user',
      'refresh-after-leaving-the-store',
      'disabled-user-keeps-session',
      'sessions-survive-password-change',
      'connected-app-not-revoked',
    ],
  },
];
