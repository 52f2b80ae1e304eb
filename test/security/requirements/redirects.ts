import type { Clause } from './clause.ts';

export const redirects: readonly Clause[] = [
  {
    clause: 'octet-exact match',
    tests: [
      'test/security/redirects.test.ts > the registered address itself is accepted',
      'test/security/codes.test.ts > redirect_uri is required at the token endpoint and is the same octet for octet',
    ],
    guards: 'redirect',
    mutations: ['redirect-uri-by-prefix', 'token-redirect-uri-not-compared'],
  },
  {
    clause:
      'a corpus of look-alikes refused (added path, query, fragment, user-info `@@`, case, trailing slash, `..;/`, percent variants, backslash, tab, IDN)',
    tests: ['test/security/redirects.test.ts > a look-alike is a 400 page without Location: ${JSON.stringify(uri)}'],
    guards: 'redirect',
    mutations: ['redirect-uri-by-prefix'],
  },
  {
    clause: 'loopback port freedom only for 127.0.0.1, [::1] and localhost of public clients',
    tests: [
      "test/security/redirects.test.ts > a look-alike of a public client's loopback address is a 400 page: ${JSON.stringify(uri)}",
      'test/security/redirects.test.ts > the loopback port of a confidential client must match',
      'test/security/authorize.test.ts > a public client receives the answer on the port it listens on, and redeems with it: ${redirect_uri}',
      'src/identity/oauth/redirect-uri.test.ts > the loopback port is free for public clients only',
      'src/identity/oauth/redirect-uri.test.ts > no other address has a free port, and each loopback host is itself only',
    ],
    guards: 'redirect',
    mutations: ['loopback-path-not-compared', 'loopback-port-free-for-all'],
  },
  {
    clause: 'registration refuses `http:` beyond loopback, `javascript:`, `data:`, wildcards, fragments',
    tests: [
      'test/security/redirects.test.ts > registration rejects addresses that could not be trusted',
      'src/identity/oauth/redirect-uri.test.ts > addresses that could send a code to a third party, or run a script, are refused',
      'test/security/registration.test.ts > all errors are reported at once; one of an address is invalid_redirect_uri',
      'test/security/client-pages.test.ts > a rejected change saves nothing',
    ],
    guards: 'redirect',
    mutations: ['changed-redirect-uri-not-validated'],
  },
  {
    clause: 'unknown client or bad redirect → 400 page without Location',
    tests: [
      'test/journeys/oauth-errors.test.ts > /authorize with ${what} is a 400 page and no redirect',
      'test/security/redirects.test.ts > invalid text before the address is trusted is shown on a page',
    ],
    guards: 'redirect',
    mutations: ['redirect-uri-by-prefix', 'repeated-redirect-uri-accepted'],
  },
  {
    clause: 'what GET checked POST checks again',
    tests: [
      'test/journeys/oauth-errors.test.ts > POST repeats the checks of GET',
      'test/security/redirects.test.ts > a look-alike is a 400 page without Location: ${JSON.stringify(uri)}',
      'test/security/authorize.test.ts > a user who left the store during the approval grants nothing',
    ],
    guards: 'redirect',
    mutations: ['redirect-uri-by-prefix', 'membership-not-locked'],
  },
  {
    clause: '`state` comes back byte-exact (UTF-8, `+`, 4 KB, `&error=`)',
    tests: [
      'test/security/redirects.test.ts > state comes back as it was sent, octet for octet',
      'test/security/redirects.test.ts > an invalid state is an error and is not sent back: ${raw}',
      'test/security/redirects.test.ts > a percent sign that begins no sequence is a literal percent sign',
      'test/security/redirects.test.ts > a long state is kept through the sign-in',
      'test/browser/authorize.test.ts > from the client, through sign-in and consent, back to the client',
    ],
    guards: 'code',
    mutations: ['oauth-state-trimmed', 'malformed-state-accepted'],
  },
  {
    clause: 'after a credential POST 303, never 307',
    tests: [
      'test/security/headers.test.ts > after a post with a secret the browser is redirected by 303, which repeats no body',
      'test/security/password-reset.test.ts > the link is mailed to the owner, works once, signs in and ends every session',
    ],
    guards: 'secret',
    mutations: ['redirect-repeats-post'],
  },
  {
    clause: '`return_to` only same-origin paths',
    tests: [
      'test/security/sign-in.test.ts > return_to leads to paths of this site only',
      'src/identity/accounts/signed-in.test.ts > a path that a browser could resolve to another host is refused',
      'src/identity/accounts/signed-in.test.ts > every accepted path leads to this site',
    ],
    guards: 'redirect',
    mutations: ['sign-in-returns-to-other-host'],
  },
];
