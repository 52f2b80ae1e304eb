/** The mails of signing up: the link, or that there is an account already. */
import type { Mail } from '#mail/mail.ts';

export function signUpMail(of: { to: string; link: string; lifetimeMinutes: number; authUrl: string }): Mail {
  return {
    to: of.to,
    subject: 'Create your account',
    text: [
      'Hello,',
      '',
      `an account at ${new URL(of.authUrl).host} was requested for this address.`,
      'Choose a password for it here:',
      '',
      of.link,
      '',
      `The link is valid for ${of.lifetimeMinutes} minutes and can be used once.`,
      'If you did not request an account, ignore this mail: none was created.',
      '',
    ].join('\n'),
  };
}

export function existingAccountMail({
  to,
  authUrl,
  signInAt,
}: {
  to: string;
  authUrl: string;
  signInAt: string;
}): Mail {
  return {
    to,
    subject: 'You already have an account',
    text: [
      'Hello,',
      '',
      `an account at ${new URL(authUrl).host} was requested for this address, which has one already.`,
      'Sign in here:',
      '',
      signInAt,
      '',
      'If you do not remember the password, choose a new one:',
      '',
      `${authUrl}/forgot-password`,
      '',
      'If you did not request an account, ignore this mail.',
      '',
    ].join('\n'),
  };
}
