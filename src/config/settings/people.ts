/** Mail, and registration of clients by anyone. */
import { mailAddress, mailUrl, onOff } from './kind.ts';

export const PEOPLE = {
  SMTP_URL: mailUrl(
    'a mail server, `smtps://user:password@host` or `smtp://…` (STARTTLS; plain on loopback only). Without it links to a new password come from `user reset-link`, and no store is mailed when nothing arrives at its webhooks. Such notices go after links that somebody asked for; a thousand of each wait in memory, and what is dropped or refused is an error in the log. Every process needs the same',
  ),
  MAIL_FROM: mailAddress('the sender of mails; required beside `SMTP_URL`'),
  OPEN_REGISTRATION: onOff(
    'anybody may register clients at `/register`, 20 from one address, then one each 3 minutes; what nobody lets in within 30 days is deleted',
  ),
};
