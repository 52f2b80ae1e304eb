/** The mails of a change of e-mail address. */
import type { Mail } from '#mail/mail.ts';

const hostOf = (authUrl: string): string => new URL(authUrl).host;

export type ChangeMail = { oldEmail: string; newEmail: string; authUrl: string };

/** Returns the mail with the link that makes the change, for the new address. */
export function confirmMail({ newEmail, authUrl }: ChangeMail, token: string, lifetimeHours: number): Mail {
  return {
    to: newEmail,
    subject: 'Confirm your e-mail address',
    text: [
      'Hello,',
      '',
      `this address was entered as the new e-mail address of an account at ${hostOf(authUrl)}.`,
      'Confirm it in a browser in which you are signed in to the account:',
      '',
      `${authUrl}/account/email/confirm?token=${token}`,
      '',
      `The link is valid for ${lifetimeHours} hours and can be used once.`,
      'If you have no account there, ignore this mail.',
      '',
    ].join('\n'),
  };
}

/** Returns the mail for a new address that has an account already. */
export function takenMail({ newEmail, authUrl }: ChangeMail): Mail {
  return {
    to: newEmail,
    subject: 'You already have an account',
    text: [
      'Hello,',
      '',
      `this address was entered as the new e-mail address of another account at ${hostOf(authUrl)}.`,
      'It has an account of its own already, so nothing was changed. Sign in to that account here:',
      '',
      `${authUrl}/sign-in`,
      '',
      'If you did not expect this mail, ignore it.',
      '',
    ].join('\n'),
  };
}

/** Returns the mail with the link that cancels or undoes the change, for the former address. */
export function requestedMail(
  { oldEmail, newEmail, authUrl }: ChangeMail,
  { token, address, undoDays }: { token: string; address: string; undoDays: number },
): Mail {
  return {
    to: oldEmail,
    subject: 'Your e-mail address is being changed',
    text: [
      'Hello,',
      '',
      `a change of the e-mail address of your account at ${hostOf(authUrl)} was requested from the network address ${address}.`,
      'It takes effect when the new address is confirmed:',
      '',
      newEmail,
      '',
      'If it was not you, stop the change here, and choose a new password:',
      '',
      `${authUrl}/undo-email?token=${token}`,
      '',
      `The link also takes this address back after the change, for ${undoDays} days.`,
      'If it was you, ignore this mail.',
      '',
    ].join('\n'),
  };
}
