/** Mail, second factors, sessions, the lifetime of access, sign-up, and the registration of clients by anyone. */
import { choice, mailAddress, mailUrl, onOff, openIdProviders, whole } from './kind.ts';

export const PEOPLE = {
  SMTP_URL: mailUrl(
    'mail server: `smtps://user:password@host` or `smtp://…` (with STARTTLS, except on loopback). Set the same URL in every process. Without it Halcyon sends no mail: `user reset-link` prints links to choose a password, stores are not warned about failing webhooks, and people not about a new device, a new password, a connected app or a new client secret. Links have priority over warnings; up to a thousand of each wait in memory, and the log has an error for each mail that was not sent',
  ),
  MAIL_FROM: mailAddress('sender of mails; required with `SMTP_URL`'),
  REQUIRE_SECOND_FACTOR: onOff(
    'requires a passkey or an authenticator app of everyone who signs in: a person without one can open only the page where both are set up. The grants of apps are not affected',
  ),
  SESSION_IDLE_DAYS: whole(
    14,
    [1, 365],
    'a browser that is not used for this time is signed out. A use is recorded every five minutes; a page that only waits for changes of its list does not use it',
  ),
  SESSION_MAX_DAYS: whole(
    30,
    [1, 365],
    'a browser is signed out this long after its sign-in, even if it is used. Both apply to signed-in browsers from their next use on',
  ),
  REFRESH_TOKEN_MAX_DAYS: whole(
    730,
    [1, 36_500],
    'days after which a user has to allow an app again, however often the app has refreshed its access. A refresh token also expires after a year without use',
  ),
  SIGN_UP: choice(
    '`off`',
    ['off', 'on'],
    '`on` lets anyone create an account at `/sign-up`, with a link that is mailed to the address; it needs `SMTP_URL`. With `off` accounts are created by the platform, by invitations to stores and by `halcyon user create`',
  ),
  OPENID_PROVIDERS: openIdProviders(
    'OpenID providers with which people [sign in](#sign-in-with-openid-providers), each with `name`, `issuer`, `client_id` and `client_secret`, and optionally `domains` and `creates_accounts`',
  ),
  SANDBOX_STORES: choice(
    '`on`',
    ['on', 'off'],
    '`on` lets each user create one sandbox store, in which the user makes sample events to develop apps: it belongs to the user and not to the platform, and is erased with the account. With `off` no new ones are created; `GET /stores?is_sandbox=1` lists those that exist to the platform, which may erase them',
  ),
  OPEN_REGISTRATION: onOff(
    'allows anyone to register clients at `/register`: 20 from one address, then one every 3 minutes. A client without a grant is deleted after 30 days, unless it was verified',
  ),
};
