import type { Clause } from './clause.ts';

export const browser: readonly Clause[] = [
  {
    clause:
      "CSP (`frame-ancestors 'none'`, `form-action` lists the validated redirect origin, else the consent button is dead in Chromium)",
    tests: [
      'test/security/headers.test.ts > no answer of a page can be framed, cached, sniffed or scripted, or sends a referrer: ${route.path}',
      'test/security/consent-form.test.ts > form-action lists the target of the answer: without it the button does nothing in Chromium',
      'test/browser/authorize.test.ts > no page of another origin can frame the consent page',
      'test/browser/authorize.test.ts > a client whose callback redirects to a third origin is reached',
    ],
    guards: 'code',
    mutations: ['csp-frame-ancestors-missing', 'form-action-without-target'],
  },
  {
    clause: 'no-referrer, no-store, nosniff',
    tests: [
      'test/security/headers.test.ts > no answer of a page can be framed, cached, sniffed or scripted, or sends a referrer: ${route.path}',
      'test/security/consent-form.test.ts > pages cannot be framed, cached or sniffed, and send no referrer to other sites',
      'test/security/client-secrets.test.ts > a secret is in one answer only, which may not be cached',
      'test/security/logo.test.ts > a logo opened as a page can run nothing',
    ],
    guards: 'secret',
    mutations: ['referrer-policy-missing', 'logo-not-sandboxed'],
  },
  {
    clause: 'two tabs and two clients at once, double click, back button',
    tests: [
      'test/security/consent-form.test.ts > two tabs, two clients and a double click each get a code of their own',
      'test/browser/authorize.test.ts > two tabs with two clients do not affect each other',
      'test/browser/authorize.test.ts > a double click on Allow leads to the client with a code that works',
      'test/browser/authorize.test.ts > the page can be used again after going back from an approval',
    ],
  },
  {
    clause: 'cross-site POST refused (Sec-Fetch-Site, then Origin, neither: refused)',
    tests: [
      'test/security/headers.test.ts > a post from another origin is rejected before its body is read: ${route.path}',
      'test/security/consent-form.test.ts > a post from another site is rejected, and one without an origin',
      'test/browser/authorize.test.ts > a form on another site grants nothing',
      'test/browser/authorize.test.ts > a form on another port of the same host, which has the cookie, grants nothing',
      'test/security/registration.test.ts > a session is rejected from another site',
    ],
    guards: 'code',
    mutations: ['same-site-form-accepted', 'form-without-origin-accepted', 'session-registers-from-other-origin'],
  },
  {
    clause: 'plus a nonce per transaction',
    tests: [
      'test/security/consent-form.test.ts > a form without the nonce of this session and this request gives no code',
      'test/security/client-pages.test.ts > a post from another site, or without the nonce, changes nothing',
      'test/security/password-change.test.ts > a form without the nonce of this session changes nothing',
    ],
    guards: 'code',
    mutations: ['consent-nonce-not-checked', 'form-nonce-not-checked'],
  },
  {
    clause: 'session id changes at sign-in, sign-out kills it',
    tests: [
      'test/security/sign-in.test.ts > the session gets a new id at each sign-in, and the old one ends',
      'test/security/sign-in.test.ts > sign-out ends the session everywhere, and the browser deletes its cookie',
      'test/security/sign-in.test.ts > on https the cookie is bound to the host',
    ],
    guards: 'secret',
    mutations: ['former-session-survives-sign-in', 'sign-out-keeps-session'],
  },
  {
    clause: 'everything from a client or user is escaped',
    tests: [
      'test/security/consent-form.test.ts > the name of a client is shown as text',
      'test/security/client-pages.test.ts > the name of an app is shown as text on every page',
      'test/security/account.test.ts > the names of users and the User-Agent are shown as text',
      'test/security/authorize.test.ts > a rejected address is shown with the differences, and the registered addresses are not',
    ],
    guards: 'secret',
    mutations: ['html-tag-not-escaped'],
  },
  {
    clause: 'prefetch and HEAD on /authorize change nothing',
    tests: [
      'test/security/authorize.test.ts > GET, HEAD and prefetch change nothing',
      'test/security/consent-form.test.ts > GET and HEAD change nothing',
      'test/security/password-reset.test.ts > opening the link, and HEAD as mail scanners send it, do not use it up',
    ],
  },
];
