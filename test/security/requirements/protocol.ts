import type { Clause } from './clause.ts';

export const protocol: readonly Clause[] = [
  {
    clause: 'duplicate parameters, 100 KB headers, NUL, bad UTF-8, wrong content types → 4xx',
    tests: [
      'test/security/protocol.test.ts > ${path} with ${what} is ${status} invalid_request',
      'test/security/headers.test.ts > 100 KB of headers are a 431: ${method} ${path}',
      'test/journeys/oauth-errors.test.ts > /authorize with ${what} is a 400 page and no redirect',
      'test/journeys/oauth-errors.test.ts > /authorize with ${what} redirects to the client with the error',
      'test/security/registration.test.ts > malformed metadata are invalid_client_metadata',
      'test/security/logo.test.ts > a body that is no form, or too large for one, is rejected',
    ],
  },
  {
    clause: 'a store token cannot publish',
    tests: ['test/journeys/publish.test.ts > a store token cannot publish'],
    guards: 'secret',
    mutations: ['store-token-publishes', 'store-token-as-platform'],
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
      'test/security/idempotency.test.ts > each client has its own keys',
      'test/security/idempotency.test.ts > a stored answer is not repeated to a client that has lost access to the store',
    ],
    guards: 'secret',
    mutations: ['idempotency-scope-without-client', 'idempotency-before-access-check'],
  },
  {
    clause: 'registration is closed to strangers',
    tests: [
      'test/security/registration.test.ts > unknown callers are rejected, with how to authenticate',
      'test/security/registration.test.ts > the platform registers verified clients; the token of an app registers none',
      'test/security/registration.test.ts > a registration token expires after its days, and is stored as a hash',
      'test/security/registration.test.ts > any caller may register twenty clients where that is open, rejected ones not counted, and then one each three minutes',
    ],
    guards: 'redirect',
    mutations: ['anonymous-registration-allowed', 'store-token-registers-clients', 'registration-token-never-expires'],
  },
  {
    clause: 'logos are never fetched from elsewhere',
    tests: [
      'test/security/logo-uri.test.ts > the address of a logo is never requested',
      'test/security/logo-uri.test.ts > no table has a logo that was not uploaded, nor the address of one',
    ],
  },
  {
    clause: 'errors never echo a secret',
    tests: [
      'test/security/misplaced-secrets.test.ts > a secret is repeated neither by an error nor in the log: ${place}',
      'test/security/misplaced-secrets.test.ts > a secret in place of an id is not repeated',
      'test/security/misplaced-secrets.test.ts > a malformed HTTP request is not repeated',
      'test/security/misplaced-secrets.test.ts > the page about an unregistered address does not show a secret in it',
      'test/security/protocol.test.ts > no error repeats its input',
    ],
    guards: 'secret',
    mutations: ['secret-repeated-in-error', 'secret-shown-on-error-page'],
  },
  {
    clause: '`error_description` stays in its character set',
    tests: [
      'test/security/error-description.test.ts > the errors of ${path} contain only permitted characters',
      'test/security/error-description.test.ts > the errors of /register contain only permitted characters',
      'test/security/error-description.test.ts > the errors that /authorize sends to a client contain only permitted characters',
      'test/security/error-description.test.ts > the errors of the API about a token contain only permitted characters',
      'src/identity/oauth/oauth-errors.test.ts > every code and description contains only the characters that RFC 6749 allows',
    ],
  },
  {
    clause: 'purge of expired rows in batches does not move p99 of /token',
    tests: [
      'test/security/purge.test.ts > a batch has its maximum size and deletes the oldest rows first',
      'test/security/purge.test.ts > a locked row is left for the next round, without waiting',
      'test/security/purge-rounds.test.ts > a purge continues until a batch is not full, then the next purge runs',
      'test/security/purge-plans.test.ts > every batch of every purge uses an index',
    ],
    later: 'bench/purge.ts: a percentile is measured on a quiet machine and not asserted on a busy one',
  },
];
