import type { Clause } from './clause.ts';

export const browser: readonly Clause[] = [
  {
    clause:
      "CSP (`frame-ancestors 'none'`, `form-action` lists the validated redirect origin, else the consent button is dead in Chromium)",
    tests: [
      'test/security/headers.test.ts > no answer of a page can be framed, kept, sniffed, scripted or sent on: ${route.path}',
      'test/security/consent-form.test.ts > form-action lists where the answer goes: without it the button is dead in Chromium',
      'test/browser/authorize.test.ts > no page of another origin can frame the question',
      'test/browser/authorize.test.ts > a client whose callback passes on to a third origin is reached',
    ],
    guards: 'code',
    mutations: ['question-in-a-frame', 'form-action-without-target'],
  },
  {
    clause: 'no-referrer, no-store, nosniff',
    tests: [
      'test/security/headers.test.ts > no answer of a page can be framed, kept, sniffed, scripted or sent on: ${route.path}',
      'test/security/consent-form.test.ts > pages cannot be framed, cached or sniffed, and send others no referrer',
      'test/security/client-secrets.test.ts > a secret stands in the one answer that makes it, which nobody keeps',
      'test/security/logo.test.ts > a logo opened by itself can do nothing',
    ],
    guards: 'secret',
    mutations: ['address-sent-as-referrer', 'logo-not-sandboxed'],
  },
  {
    clause: 'two tabs and two clients at once, double click, back button',
    tests: [
      'test/security/consent-form.test.ts > two tabs, two clients and a double click each get a code of their own',
      'test/browser/authorize.test.ts > two tabs with two clients do not get in each other’s way',
      'test/browser/authorize.test.ts > a double click on Allow leads to the client with a code that works',
      'test/browser/authorize.test.ts > back after approval, the page can be used again',
    ],
  },
  {
    clause: 'cross-site POST refused (Sec-Fetch-Site, then Origin, neither: refused)',
    tests: [
      'test/security/headers.test.ts > a post from elsewhere is refused before anything is read: ${route.path}',
      'test/security/consent-form.test.ts > a post from another site is refused, and one that does not say where it is from',
      'test/browser/authorize.test.ts > a form on another site grants nothing',
      'test/browser/authorize.test.ts > a form on another port of the same host, which has the cookie, grants nothing',
      'test/security/registration.test.ts > a session is worth nothing to another site',
    ],
    guards: 'code',
    mutations: ['cross-site-form-taken', 'form-from-nowhere-taken', 'session-registers-from-elsewhere'],
  },
  {
    clause: 'plus a nonce per transaction',
    tests: [
      'test/security/consent-form.test.ts > a form without the nonce of this session and this request gives no code',
      'test/security/client-pages.test.ts > a post from another site, or without the nonce, changes nothing',
      'test/security/password-change.test.ts > a form without the nonce of this session changes nothing',
    ],
    guards: 'code',
    mutations: ['nonce-not-checked', 'form-without-nonce'],
  },
  {
    clause: 'session id changes at sign-in, sign-out kills it',
    tests: [
      'test/security/sign-in.test.ts > the session gets a new id at each sign-in, and the old one ends',
      'test/security/sign-in.test.ts > sign-out ends the session everywhere, and the browser forgets it',
      'test/security/sign-in.test.ts > on https the cookie is bound to the host',
    ],
    guards: 'secret',
    mutations: ['session-outlives-the-next', 'sign-out-in-name-only'],
  },
  {
    clause: 'everything from a client or user is escaped',
    tests: [
      'test/security/consent-form.test.ts > what a client calls itself is text and nothing else',
      'test/security/client-pages.test.ts > what an app calls itself is text and nothing else, on every page that shows it',
      'test/security/account.test.ts > what somebody is called and what their browser says of itself is text',
      'test/security/authorize.test.ts > a refused address is shown with what differs, and what is registered is not',
    ],
    guards: 'secret',
    mutations: ['markup-not-escaped'],
  },
  {
    clause: 'prefetch and HEAD on /authorize change nothing',
    tests: [
      'test/security/authorize.test.ts > a look changes nothing: GET, HEAD, prefetch',
      'test/security/consent-form.test.ts > looking changes nothing: GET, HEAD',
      'test/security/password-reset.test.ts > opening the link, and HEAD as mail scanners send it, use nothing up',
    ],
  },
];
