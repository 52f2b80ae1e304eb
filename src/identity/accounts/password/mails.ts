/** The mails with a link for choosing a password. */
import type { Mail } from '#mail/mail.ts';

type Link = { to: string; link: string; lifetimeMinutes: number; authUrl: string };

const hostOf = (authUrl: string): string => new URL(authUrl).host;

export function resetMail({ to, link, lifetimeMinutes, authUrl }: Link): Mail {
  return {
    to,
    subject: 'Choose a new password',
    text: [
      'Hello,',
      '',
      `a new password was requested for your account at ${hostOf(authUrl)}.`,
      'Choose it here:',
      '',
      link,
      '',
      `The link is valid for ${lifetimeMinutes} minutes and can be used once.`,
      'If you did not request it, ignore this mail: your password is unchanged.',
      '',
    ].join('\n'),
  };
}

/** Returns the mail for a user that the platform created without a password. */
export function welcomeMail({ to, link, lifetimeMinutes, authUrl }: Link): Mail {
  return {
    to,
    subject: 'Your new account',
    text: [
      'Hello,',
      '',
      `an account was created for you at ${hostOf(authUrl)}.`,
      'Choose a password for it here:',
      '',
      link,
      '',
      `The link is valid for ${lifetimeMinutes} minutes and can be used once. After that, request another one:`,
      '',
      `${authUrl}/forgot-password`,
      '',
    ].join('\n'),
  };
}
