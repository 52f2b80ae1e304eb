/** Mails that notify a person of a change in the security of the account: a new device, a new password, a connected app, a client secret. */
import type { Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import type { Log } from '#core/log.ts';
import type { Mail, Mailer } from '#mail/mail.ts';
import { shownName } from '#core/legible.ts';
import { originOf, type Origin } from './audit/audit.ts';
import { listSignIns } from './audit/audit-sql.ts';
import { browserOf, knownBrowserOf } from './audit/describe.ts';
import type { Devices } from './device.ts';
import { addressPrefix } from './throttle/prefix.ts';
import type { Throttle } from './throttle/throttle.ts';

type Person = { id: number; email: string };
type Request = Pick<RawRequest, 'address' | 'headers' | 'cookies' | 'now'>;

/** Each function returns at once: the response does not wait for the mail. */
export type SecurityMails = {
  /**
   * Returns whether a browser with the right password is unknown: it has no device cookie of the account, and the person has never
   * signed in by the same kind of browser from the same network. Call it before the sign-in is recorded.
   */
  isNewDevice: (request: Request, user: Person & { passwordHash: string }) => Promise<boolean>;
  newDevice: (request: Request, user: Person) => void;
  passwordChanged: (request: Request, user: Person) => void;
  /** `place`: the name of the store, or null for the account with all stores. */
  appConnected: (request: Request, user: Person, app: { name: string; place: string | null }) => void;
  /** `olderUntil`: when the older secrets expire; null if they have expired. */
  secretCreated: (request: Request, user: Person, app: AppOfSecret) => void;
};

type AppOfSecret = { clientId: string; name: string; olderUntil: Date | null };

/** Sign-ins that are compared with a new one: the latest in the audit. */
const SIGN_INS_COMPARED = 1_000;

const dateOf = (now: Date): string => `${now.toISOString().slice(0, 16).replace('T', ' ')} UTC`;

/** An unknown user agent is not repeated: it would be text of a stranger in a mail of the operator. */
const factsOf = ({ address, userAgent }: Origin, now: Date): string[] => [
  `Browser: ${knownBrowserOf(userAgent) ?? 'unknown'}`,
  `Network address: ${address}`,
  `Time: ${dateOf(now)}`,
  '',
];

type Facts = { to: string; origin: Origin; now: Date; authUrl: string };

function newDeviceMail({ to, origin, now, authUrl }: Facts): Mail {
  return {
    to,
    subject: 'New sign-in to your account',
    text: [
      'Hello,',
      '',
      `your account at ${new URL(authUrl).host} was signed in to from a browser that was not used for it before.`,
      '',
      ...factsOf(origin, now),
      'If it was you, ignore this mail. If not, choose a new password, which signs out all other browsers:',
      '',
      `${authUrl}/account/password`,
      '',
    ].join('\n'),
  };
}

function passwordChangedMail({ to, origin, now, authUrl }: Facts): Mail {
  return {
    to,
    subject: 'Your password was changed',
    text: [
      'Hello,',
      '',
      `the password of your account at ${new URL(authUrl).host} was changed. All other browsers are signed out.`,
      '',
      ...factsOf(origin, now),
      'If it was you, ignore this mail. If not, choose a new password, and disconnect all apps with it:',
      '',
      `${authUrl}/forgot-password`,
      '',
    ].join('\n'),
  };
}

function appConnectedMail({ to, origin, now, authUrl }: Facts, app: { name: string; place: string | null }): Mail {
  const place = app.place === null ? 'your account and all your stores' : `the store "${shownName(app.place)}"`;
  return {
    to,
    subject: 'An app was connected to your account',
    text: [
      'Hello,',
      '',
      `the app "${shownName(app.name)}" was given access to ${place} at ${new URL(authUrl).host}.`,
      '',
      ...factsOf(origin, now),
      'If it was you, ignore this mail. If not, disconnect the app, and choose a new password:',
      '',
      `${authUrl}/account#connected`,
      '',
    ].join('\n'),
  };
}

function secretCreatedMail({ to, origin, now, authUrl }: Facts, { clientId, name, olderUntil }: AppOfSecret): Mail {
  const older =
    olderUntil === null
      ? 'All older secrets have expired: requests with one are refused.'
      : `The previous secret is valid until ${dateOf(olderUntil)}. Configure your app with the new one before.`;
  return {
    to,
    subject: `Your app "${shownName(name)}" has a new client secret`,
    text: [
      'Hello,',
      '',
      `a client secret was created for your app "${shownName(name)}" at ${new URL(authUrl).host}. ${older}`,
      '',
      ...factsOf(origin, now),
      'If it was you, ignore this mail. If not, choose a new password, and create another secret, without an overlap, on the page of your app:',
      '',
      `${authUrl}/account/clients/${clientId}`,
      '',
    ].join('\n'),
  };
}

/** The mails are not notices: those of failing webhooks must not delay or displace them. */
export function createSecurityMails(deps: {
  sql: Sql;
  devices: Devices;
  throttle: Throttle;
  mailer: Mailer;
  log: Log;
  authUrl: string;
}): SecurityMails {
  const { sql, devices, throttle, mailer, log, authUrl } = deps;
  const post = (kind: string, { id, email }: Person, request: Request, compose: (facts: Facts) => Mail): void => {
    const { now } = request;
    const admit = async (): Promise<void> => {
      // One bucket a kind: many sign-ins cannot suppress the mail about the new password.
      const taken = await throttle.take([{ limit: 'security mails to account', subject: `${kind} ${id}` }], now);
      if (taken.allowed) mailer.send(compose({ to: email, origin: originOf(request), now, authUrl }));
      else log.warn({ kind, userId: id }, 'security mail not sent: too many of this kind');
    };
    admit().catch((error: unknown) => log.error({ err: error }, 'security mail failed'));
  };
  return {
    isNewDevice: async (request, user) => {
      if (devices.recognize(request, user) !== undefined) return false;
      const { address, userAgent } = originOf(request);
      const [network, browser] = [addressPrefix(address), browserOf(userAgent)];
      const signIns = await listSignIns(sql, user.id, SIGN_INS_COMPARED);
      return !signIns.some((one) => addressPrefix(one.address) === network && browserOf(one.userAgent) === browser);
    },
    newDevice: (request, user) => post('new device', user, request, newDeviceMail),
    passwordChanged: (request, user) => post('password', user, request, passwordChangedMail),
    appConnected: (request, user, app) => post('app', user, request, (facts) => appConnectedMail(facts, app)),
    secretCreated: (request, user, app) =>
      post(`secret ${app.clientId}`, user, request, (facts) => secretCreatedMail(facts, app)),
  };
}
