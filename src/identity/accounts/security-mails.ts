/** Notifies a person by mail of a change in the security of the account: a new device, a new password, a connected app, a client secret. */
import type { Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import type { Log } from '#core/log.ts';
import type { Mail, Mailer } from '#mail/mail.ts';
import { originOf } from './audit/audit.ts';
import { listSignIns } from './audit/audit-sql.ts';
import { browserOf } from './audit/describe.ts';
import type { Devices } from './device.ts';
import {
  appConnectedMail,
  newDeviceMail,
  passwordChangedMail,
  secretCreatedMail,
  type AppOfSecret,
  type ConnectedApp,
  type SecurityFacts,
} from './account-mails.ts';
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
  appConnected: (request: Request, user: Person, app: ConnectedApp) => void;
  secretCreated: (request: Request, user: Person, app: AppOfSecret) => void;
};

/** Sign-ins that are compared with a new one: the latest in the audit. */
const SIGN_INS_COMPARED = 1_000;

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
  const post = (
    kind: string,
    { id, email }: Person,
    request: Request,
    compose: (facts: SecurityFacts) => Mail,
  ): void => {
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
