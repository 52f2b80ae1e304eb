/** Requests a password reset link: GET and POST /forgot-password. */
import type { Sql } from '#db/pool.ts';
import { htmlAnswer } from '#http/answers.ts';
import type { RawHandler } from '#http/route.ts';
import { html } from '#hypermedia/markup.ts';
import { readEmail } from '#core/email.ts';
import type { Log } from '#core/log.ts';
import type { Mailer } from '#mail/mail.ts';
import { originOf } from '../audit/audit.ts';
import { findUserByEmail } from '../accounts-sql.ts';
import type { Devices } from '../device.ts';
import { addressPrefix } from '../throttle/prefix.ts';
import type { Bucket, Throttle } from '../throttle/throttle.ts';
import { tooManyAnswer } from '../too-many.ts';
import type { Links } from './links.ts';
import { resetMail } from './mails.ts';
import { forgotPage, noMailPage, sentPage } from './pages.ts';

const NO_ADDRESS = 'Enter the e-mail address you sign in with.';

const waitAdvice = (lifetimeMinutes: number) =>
  html`<p>
    Check your inbox and your spam folder: the links in the latest three mails are each valid for ${lifetimeMinutes}
    minutes.
  </p>`;

type Deps = {
  sql: Sql;
  throttle: Throttle;
  devices: Devices;
  links: Links;
  /** Undefined if mail is not configured. */
  mailer: Mailer | undefined;
  authUrl: string;
  root: string;
  log: Log;
};

export function createForgot(deps: Deps): Record<'show' | 'submit', RawHandler> {
  const { sql, throttle, devices, links, mailer, authUrl, root, log } = deps;
  const { lifetimeMinutes } = links;

  return {
    show: async () =>
      htmlAnswer(200, mailer === undefined ? noMailPage(root) : forgotPage({ root, email: '', fault: undefined })),

    submit: async (request) => {
      if (mailer === undefined) return htmlAnswer(200, noMailPage(root));
      const typed = request.form.get('email') ?? '';
      const email = readEmail(typed);
      if (email === undefined)
        return htmlAnswer(422, forgotPage({ root, email: typed, fault: { field: 'email', message: NO_ADDRESS } }));
      const user = await findUserByEmail(sql, email);
      const device = devices.recognize(request, { email, passwordHash: user?.passwordHash ?? '' });
      const ofMailbox: readonly Bucket[] =
        device === undefined
          ? [
              { limit: 'mail to account', subject: email },
              { limit: 'mails to account a day', subject: email },
            ]
          : [{ limit: 'mails by device', subject: device }];
      const network: Bucket = { limit: 'mail from address', subject: addressPrefix(request.address) };
      const taken = await throttle.take([network, ...ofMailbox], request.now);
      if (!taken.allowed) return tooManyAnswer(root, taken, waitAdvice(lifetimeMinutes));
      const send = async (): Promise<void> => {
        if (user === undefined) return;
        const link = await links.issue(user.id, { origin: originOf(request), now: request.now });
        if (link !== undefined) mailer.send(resetMail({ to: user.email, link, lifetimeMinutes, authUrl }));
      };
      // Not awaited: a commit waits for the disk, and its duration would reveal whether the account exists.
      send().catch((error: unknown) => log.error({ err: error }, 'password reset link failed'));
      return htmlAnswer(200, sentPage({ root, email, lifetimeMinutes }));
    },
  };
}
