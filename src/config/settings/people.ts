/** Mail, the registration of clients by anyone, and the lifetime of access. */
import { mailAddress, mailUrl, onOff, whole } from './kind.ts';

export const PEOPLE = {
  SMTP_URL: mailUrl(
    'mail server: `smtps://user:password@host` or `smtp://…` (with STARTTLS, except on loopback). Set the same URL in every process. Without it Halcyon sends no mail: `user reset-link` prints links to choose a password, and stores are not warned about failing webhooks. Links have priority over warnings; up to a thousand of each wait in memory, and the log has an error for each mail that was not sent',
  ),
  MAIL_FROM: mailAddress('sender of mails; required with `SMTP_URL`'),
  REFRESH_TOKEN_MAX_DAYS: whole(
    730,
    [1, 36_500],
    'days after which a user has to allow an app again, however often the app has refreshed its access. A refresh token also expires after a year without use',
  ),
  OPEN_REGISTRATION: onOff(
    'allows anyone to register clients at `/register`: 20 from one address, then one every 3 minutes. A client without a grant is deleted after 30 days, unless it was verified',
  ),
};
