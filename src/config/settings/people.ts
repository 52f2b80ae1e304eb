/** Mail, and the registration of clients by anyone. */
import { mailAddress, mailUrl, onOff } from './kind.ts';

export const PEOPLE = {
  SMTP_URL: mailUrl(
    'mail server, `smtps://user:password@host` or `smtp://…` (STARTTLS; plain on loopback only). Without it password links come from `user reset-link`, and stores get no mail about failing webhooks. Password links have priority over these notices; a thousand of each wait in memory, and a dropped or refused mail is an error in the log. The same in every process',
  ),
  MAIL_FROM: mailAddress('sender of mails; required with `SMTP_URL`'),
  OPEN_REGISTRATION: onOff(
    'allows anyone to register clients at `/register`: 20 from one address, then one every 3 minutes. A client that has neither a grant nor been verified after 30 days is deleted',
  ),
};
