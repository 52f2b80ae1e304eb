/** What is mailed to people about their passwords. */
import type { Mail } from '#mail/mail.ts';

type Link = { to: string; link: string; lifetimeMinutes: number; authUrl: string };

const hostOf = (authUrl: string): string => new URL(authUrl).host;

export const resetMail = ({ to, link, lifetimeMinutes, authUrl }: Link): Mail => ({
  to,
  subject: 'Choose a new password',
  text: [
    'Hello,',
    '',
    `somebody, probably you, asked for a new password at ${hostOf(authUrl)}.`,
    'Choose it here:',
    '',
    link,
    '',
    `The link works for ${lifetimeMinutes} minutes, and once.`,
    'If it was not you, do nothing: your password stays as it is.',
    '',
  ].join('\n'),
});

/** For a user whom the platform made without a password. */
export const welcomeMail = ({ to, link, lifetimeMinutes, authUrl }: Link): Mail => ({
  to,
  subject: 'Your new account',
  text: [
    'Hello,',
    '',
    `an account was made for you at ${hostOf(authUrl)}.`,
    'Choose a password for it here:',
    '',
    link,
    '',
    `The link works for ${lifetimeMinutes} minutes, and once. Later, ask for another one:`,
    '',
    `${authUrl}/forgot-password`,
    '',
  ].join('\n'),
});
