/** The mails about changes of second factors, for the case that someone else made them. */
import type { Mail } from '#mail/mail.ts';

const hostOf = (authUrl: string): string => new URL(authUrl).host;

/** `what` happened: a sentence. */
export function factorChangedMail({ to, what, authUrl }: { to: string; what: string; authUrl: string }): Mail {
  return {
    to,
    subject: 'The sign-in settings of your account have changed',
    text: [
      'Hello,',
      '',
      `the sign-in settings of your account at ${hostOf(authUrl)} have changed: ${what}`,
      '',
      'If this was you, there is nothing to do. If not, change your password and check your sign-in settings:',
      '',
      `${authUrl}/account/security`,
      '',
    ].join('\n'),
  };
}

export function recoveryCodeUsedMail({ to, left, authUrl }: { to: string; left: number; authUrl: string }): Mail {
  return factorChangedMail({ to, what: `a recovery code was used; ${left} are left.`, authUrl });
}
