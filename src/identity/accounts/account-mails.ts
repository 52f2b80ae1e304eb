/**
 * All mails of accounts and invitations, and the notices about the security of an account: a new device, a new password, a
 * connected app, a client secret. A name that another person has chosen is shown by `shownName`.
 */
import { shownName } from '#core/text.ts';
import { letter, type Mail } from '#mail/mailer.ts';
import { browserOf, knownBrowserOf, originOf, type Origin } from './audit.ts';
import type { RawRequest } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { listSignIns } from './accounts-sql.ts';
import { addressPrefix } from '#core/address-prefix.ts';
import type { Devices, Throttle } from './throttle.ts';

const hostOf = (authUrl: string): string => new URL(authUrl).host;

/** Returns a time such as `2026-11-22 01:00 UTC`. */
const timeOf = (at: Date): string => `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;

const onceWithin = (minutes: number): string => `The link is valid for ${minutes} minutes and can be used once.`;

type Link = { to: string; link: string; lifetimeMinutes: number; authUrl: string };

export function resetMail({ to, link, lifetimeMinutes, authUrl }: Link): Mail {
  return letter(to, 'Choose a new password', [
    `a new password was requested for your account at ${hostOf(authUrl)}.\nChoose it here:`,
    link,
    `${onceWithin(lifetimeMinutes)}\nIf you did not request it, ignore this mail: your password is unchanged.`,
  ]);
}

/** Returns the mail for a user that the platform created without a password. */
export function welcomeMail({ to, link, lifetimeMinutes, authUrl }: Link): Mail {
  return letter(to, 'Your new account', [
    `an account was created for you at ${hostOf(authUrl)}.\nChoose a password for it here:`,
    link,
    `${onceWithin(lifetimeMinutes)} After that, request another one:`,
    `${authUrl}/forgot-password`,
  ]);
}

export function signUpMail({ to, link, lifetimeMinutes, authUrl }: Link): Mail {
  return letter(to, 'Create your account', [
    `an account at ${hostOf(authUrl)} was requested for this address.\nChoose a password for it here:`,
    link,
    `${onceWithin(lifetimeMinutes)}\nIf you did not request an account, ignore this mail: none was created.`,
  ]);
}

const ACCOUNT_EXISTS = 'You already have an account';

/** Returns the mail to an address for which an account was requested, and which has one. */
export function existingAccountMail({ to, authUrl, signInAt }: Record<'to' | 'authUrl' | 'signInAt', string>): Mail {
  return letter(to, ACCOUNT_EXISTS, [
    `an account at ${hostOf(authUrl)} was requested for this address, which has one already.\nSign in here:`,
    signInAt,
    'If you do not remember the password, choose a new one:',
    `${authUrl}/forgot-password`,
    'If you did not request an account, ignore this mail.',
  ]);
}

type EmailChangeMail = { oldEmail: string; newEmail: string; authUrl: string };

/** Returns the mail with the link that makes a change of address, for the new address. */
export function confirmEmailMail(
  { newEmail, authUrl }: EmailChangeMail,
  { token, lifetimeHours }: { token: string; lifetimeHours: number },
): Mail {
  return letter(newEmail, 'Confirm your e-mail address', [
    `this address was entered as the new e-mail address of an account at ${hostOf(authUrl)}.\nConfirm it in a browser in which you are signed in to the account:`,
    `${authUrl}/account/email/confirm?token=${token}`,
    `The link is valid for ${lifetimeHours} hours and can be used once.\nIf you have no account there, ignore this mail.`,
  ]);
}

/** Returns the mail for a new address that has an account already. */
export function takenEmailMail({ newEmail, authUrl }: Pick<EmailChangeMail, 'newEmail' | 'authUrl'>): Mail {
  return letter(newEmail, ACCOUNT_EXISTS, [
    `this address was entered as the new e-mail address of another account at ${hostOf(authUrl)}.\nIt has an account of its own already, so nothing was changed. Sign in to that account here:`,
    `${authUrl}/sign-in`,
    'If you did not expect this mail, ignore it.',
  ]);
}

/**
 * Returns the mail with the link that cancels or undoes a change of address, for the former address. `source`: by whom, or from which
 * network address, the change was requested. `isMade`: it has taken effect.
 */
export function emailChangeMail(
  { oldEmail, newEmail, authUrl }: EmailChangeMail,
  { token, source, undoDays, isMade = false }: { token: string; source: string; undoDays: number; isMade?: boolean },
): Mail {
  const effect = isMade
    ? 'You sign in with the new address from now on:'
    : 'It takes effect when the new address is confirmed:';
  return letter(oldEmail, 'Your e-mail address is being changed', [
    `a change of the e-mail address of your account at ${hostOf(authUrl)} was requested ${source}.\n${effect}`,
    newEmail,
    'If it was not you, stop the change here, and choose a new password:',
    `${authUrl}/undo-email?token=${token}`,
    `The link also takes this address back after the change, for ${undoDays} days.\nIf it was you, ignore this mail.`,
  ]);
}

export function erasedMail({ to, authUrl }: { to: string; authUrl: string }): Mail {
  return letter(to, 'Your account was erased', [
    `your account at ${hostOf(authUrl)} was erased, as requested on its page with your password.\nIf it was not you, ask the operator of the service.`,
  ]);
}

/** Returns the mail about a change of second factors, for the case that another person made it. `what` happened: a sentence. */
export function factorChangedMail({ to, what, authUrl }: { to: string; what: string; authUrl: string }): Mail {
  return letter(to, 'The sign-in settings of your account have changed', [
    `the sign-in settings of your account at ${hostOf(authUrl)} have changed: ${what}`,
    'If this was you, there is nothing to do. If not, change your password and check your sign-in settings:',
    `${authUrl}/account/security`,
  ]);
}

/** An unknown user agent is not repeated: it would be text of a stranger in a mail of the operator. */
function shownFacts({ address, userAgent }: Origin, now: Date): string {
  const browser = knownBrowserOf(userAgent) ?? 'unknown';
  return `Browser: ${browser}\nNetwork address: ${address}\nTime: ${timeOf(now)}`;
}

/** A mail about the security of an account: `what` happened, and the `remedy` at `path` if it was another person. */
type SecurityMail = { kind: string; subject: string; what: (host: string) => string; remedy: string; path: string };

export const NEW_DEVICE: SecurityMail = {
  kind: 'new device',
  subject: 'New sign-in to your account',
  what: (host) => `your account at ${host} was signed in to from a browser that was not used for it before.`,
  remedy: 'choose a new password, which signs out all other browsers',
  path: '/account/password',
};

export const PASSWORD_CHANGED: SecurityMail = {
  kind: 'password',
  subject: 'Your password was changed',
  what: (host) => `the password of your account at ${host} was changed. All other browsers are signed out.`,
  remedy: 'choose a new password, and disconnect all apps with it',
  path: '/forgot-password',
};

/** `place`: the name of the store, or null for the account with all stores. */
export function appConnected(app: { name: string; place: string | null }): SecurityMail {
  const place = app.place === null ? 'your account and all your stores' : `the store "${shownName(app.place)}"`;
  return {
    kind: 'app',
    subject: 'An app was connected to your account',
    what: (host) => `the app "${shownName(app.name)}" was given access to ${place} at ${host}.`,
    remedy: 'disconnect the app, and choose a new password',
    path: '/account#connected',
  };
}

/** `olderUntil`: when the older secrets expire; null if they have expired. */
export function secretCreated(
  { clientId, name }: { clientId: string; name: string },
  olderUntil: Date | null,
): SecurityMail {
  const older =
    olderUntil === null
      ? 'All older secrets have expired: requests with one are refused.'
      : `The previous secret is valid until ${timeOf(olderUntil)}. Configure your app with the new one before.`;
  return {
    kind: `secret ${clientId}`,
    subject: `Your app "${shownName(name)}" has a new client secret`,
    what: (host) => `a client secret was created for your app "${shownName(name)}" at ${host}. ${older}`,
    remedy: 'choose a new password, and create another secret, without an overlap, on the page of your app',
    path: `/account/clients/${clientId}`,
  };
}

type Invitation = { to: string; storeName: string; token: string; expires: Date };

/** Returns the mail of an invitation. The name of the store is the only text in it that a store chooses. */
export function invitationMail({ to, storeName, token, expires }: Invitation, authUrl: string): Mail {
  const store = shownName(storeName);
  return letter(to, `Invitation to ${store}`, [
    `you are invited to the store "${store}" at ${hostOf(authUrl)}.\nJoin it here, with your account or a new one:`,
    `${authUrl}/invitations/${token}`,
    `The link can be used once, until ${timeOf(expires)}.\nIf you do not know the store, ignore this mail.`,
  ]);
}

type Person = { id: number; email: string };
type Request = Pick<RawRequest, 'address' | 'headers' | 'cookies' | 'now'>;

/** Sign-ins that are compared with a new one: the latest in the audit. */
const SIGN_INS_COMPARED = 1_000;

/** Returns undefined without mail. The mails are not notices: those of failing webhooks must not delay or displace them. */
export function createSecurityMails(
  { sql, mailer, log, config: { authUrl } }: Runtime,
  { devices, throttle }: { devices: Devices; throttle: Throttle },
) {
  if (mailer === undefined) return undefined;
  return {
    /**
     * Returns whether a browser with the right password is unknown: it has no device cookie of the account, and the person has never
     * signed in by the same kind of browser from the same network. Call it before the sign-in is recorded.
     */
    isNewDevice: async (request: Request, user: Person & { passwordHash: string }): Promise<boolean> => {
      if (devices.recognize(request, user) !== undefined) return false;
      const { address, userAgent } = originOf(request);
      const [network, browser] = [addressPrefix(address), browserOf(userAgent)];
      const signIns = await listSignIns(sql, user.id, SIGN_INS_COMPARED);
      return !signIns.some((one) => addressPrefix(one.address) === network && browserOf(one.userAgent) === browser);
    },
    /** Returns at once: the response does not wait for the mail. */
    send: (request: Request, { id, email }: Person, mail: SecurityMail): void => {
      const { now } = request;
      const { kind, subject, what, remedy, path } = mail;
      const facts = shownFacts(originOf(request), now);
      const remedies = [`If it was you, ignore this mail. If not, ${remedy}:`, authUrl + path];
      const admit = async (): Promise<void> => {
        // One bucket a kind: many sign-ins cannot suppress the mail about the new password.
        const taken = await throttle.take([{ limit: 'security mails to account', subject: `${kind} ${id}` }], now);
        if (taken.allowed) mailer.send(letter(email, subject, [what(hostOf(authUrl)), facts, ...remedies]));
        else log.warn({ kind, userId: id }, 'security mail not sent: too many of this kind');
      };
      admit().catch((error: unknown) => log.error({ err: error }, 'security mail failed'));
    },
  };
}
