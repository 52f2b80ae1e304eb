import type { Clause } from './clause.ts';

export const protocol: readonly Clause[] = [
  {
    clause: 'duplicate parameters, 100 KB headers, NUL, bad UTF-8, wrong content types → 4xx',
    tests: [
      'test/security/protocol.test.ts > ${path} with ${what} is ${status} invalid_request',
      'test/security/headers.test.ts > 100 KB of headers are a 431: ${method} ${path}',
      'test/journeys/oauth-errors.test.ts > /authorize with ${what} is a 400 page and no redirect',
      'test/journeys/oauth-errors.test.ts > /authorize with ${what} redirects to the client with the error',
      'test/security/registration.test.ts > metadata that cannot be read are invalid_client_metadata',
      'test/security/logo.test.ts > a body that is no form, or too large for one, is refused',
    ],
  },
  {
    clause: 'a store token cannot publish',
    tests: ['test/journeys/publish.test.ts > a store token cannot publish'],
    guards: 'secret',
    mutations: ['foreign-events-published', 'app-token-is-the-platform'],
  },
  {
    clause: "an app does not see another app's `encryption_key`",
    tests: [
      'test/journeys/webhook-keys.test.ts > the client that created the webhook sees the key, and no other does',
      'test/journeys/webhook-keys.test.ts > another client may set a new key, which it then does not see',
      'test/journeys/pages.test.ts > a member who is no owner sees no key',
    ],
    guards: 'secret',
    mutations: ['key-shown-to-other-apps', 'key-shown-to-members'],
  },
  {
    clause: 'idempotency answers never cross clients',
    tests: [
      'test/security/idempotency.test.ts > keys are each client’s own',
      'test/security/idempotency.test.ts > an answer is not given again to who no longer reaches the store',
    ],
    guards: 'secret',
    mutations: ['idempotency-of-everybody', 'idempotency-before-admission'],
  },
  {
    clause: 'registration is closed to strangers',
    tests: [
      'test/security/registration.test.ts > strangers are refused, and told how to prove that they are none',
      'test/security/registration.test.ts > the platform registers verified clients; the token of an app registers none',
      'test/security/registration.test.ts > a registration token ends with its days, and is stored as a hash',
      'test/security/registration-open.test.ts > anybody may register twenty clients, refused ones not counted, and then one each three minutes',
    ],
    guards: 'redirect',
    mutations: ['strangers-register', 'app-token-registers', 'registration-token-for-ever'],
  },
  {
    clause: 'logos are never fetched from elsewhere',
    tests: [
      'test/security/logo-uri.test.ts > the address of a logo is asked for by nobody',
      'test/security/logo-uri.test.ts > no table has a logo that was not uploaded, nor the address of one',
    ],
  },
  {
    clause: 'errors never echo a secret',
    tests: [
      'test/security/misplaced-secrets.test.ts > a secret is not said again, neither by an error nor in the log: ${place}',
      'test/security/misplaced-secrets.test.ts > a secret in place of an id is not said again',
      'test/security/misplaced-secrets.test.ts > what is no HTTP at all is not said again',
      'test/security/misplaced-secrets.test.ts > the page about an address that is not registered does not show a secret in it',
      'test/security/protocol.test.ts > no refusal repeats what was sent',
    ],
    guards: 'secret',
    mutations: ['secret-as-a-name-said-again', 'secret-for-everybody-to-see'],
  },
  {
    clause: '`error_description` stays in its character set',
    tests: [
      'test/security/error-description.test.ts > the errors of ${path} stay inside their characters',
      'test/security/error-description.test.ts > the errors of /register stay inside their characters',
      'test/security/error-description.test.ts > the errors that /authorize sends to a client stay inside their characters',
      'test/security/error-description.test.ts > the errors of the API that speak of a token stay inside their characters',
      'src/identity/oauth/errors.test.ts > every code and description stays inside the characters of RFC 6749',
    ],
  },
  {
    clause: 'purge of expired rows in batches does not move p99 of /token',
    tests: [
      'test/security/purge.test.ts > a batch is as large as it may be and takes the oldest first',
      'test/security/purge.test.ts > a row that somebody holds is left for the next time, without waiting',
      'test/security/purge-rounds.test.ts > a purge goes on until a batch is not full, and the next one has its turn',
      'test/security/purge-plans.test.ts > every batch of every purge goes by an index',
    ],
    later: 'bench/purge.ts: a percentile is measured on a quiet machine and not asserted on a busy one',
  },
];
