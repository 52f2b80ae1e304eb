/** The pages and forms of sign-in settings: GET /account/security and what is below it. Every change needs a recent verification. */
import { transaction, type Queryable } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { idIn, type RawRequest, type RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { notFound } from '#core/problem.ts';
import { isLonger } from '#core/text.ts';
import { deleteIdentity, hasPassword, listIdentities, lockUser, verifySession } from '../accounts-sql.ts';
import { originOf, recordAuditEntry, type Action } from '../audit.ts';
import type { Session } from '../sessions.ts';
import type { OpenIdProvider } from '../external-sign-in.ts';
import type { People } from '../people.ts';
import { enrolmentPath } from '../signed-in.ts';
import {
  addressOf,
  createSecret,
  hasSecondFactor,
  renewRecoveryCodes,
  storeApp,
  PASSKEY_NAME_LENGTH_MAX,
  PASSKEYS_MAX,
} from './second-factor.ts';
import { deleteApp, deletePasskey, deleteRecoveryCodes, findFactors, renamePasskey } from './factors-sql.ts';
import { factorChangedMail } from '../account-mails.ts';
import { appPage, recoveryCodesPage, REGISTRATION_FIELD, securityPage } from './security-page.ts';

const NOT_ADDED =
  'The passkey was not added: it is registered already, or the page was open for too long. Reload the page and try again.';
const ONLY_SIGN_IN =
  'This account has no password and no passkey: without this provider you could not sign in. Choose a password with "Forgot your password?" on the sign-in page, or add a passkey, and unlink the provider then.';
const WRONG_CODE = 'The code is wrong. Check that the clock of your device is right, and enter the current code.';
const NO_NAME = `Give the passkey a name of at most ${PASSKEY_NAME_LENGTH_MAX} characters.`;

/** The text of the mail about an action; undefined for actions that weaken nothing. */
const MAILED: Readonly<Partial<Record<Action, string>>> = {
  passkey_added: 'a passkey was added.',
  passkey_removed: 'a passkey was removed.',
  authenticator_app_set: 'an authenticator app was set up.',
  authenticator_app_removed: 'the authenticator app was removed.',
  recovery_codes_renewed: 'the recovery codes were renewed.',
  external_identity_unlinked: 'sign-in with another account was unlinked.',
};

/** The person has used the new factor with these, so the session is verified with it. */
const PROVING: ReadonlySet<Action> = new Set<Action>(['passkey_added', 'authenticator_app_set']);

/** Runs a change of factors under the lock of the user, with its audit entry and mail. `change` returns undefined if it did nothing. */
function createChanges({ sql, mailer, config: { authUrl } }: Runtime) {
  return async <T>(
    request: RawRequest,
    session: Session,
    action: Action,
    change: (tx: Queryable) => Promise<T | undefined>,
  ): Promise<T | undefined> => {
    const { userId, email } = session;
    const done = await transaction(sql, async (tx) => {
      if ((await lockUser(tx, userId)) === undefined) return undefined;
      const result = await change(tx);
      if (result !== undefined && PROVING.has(action))
        await verifySession(tx, Buffer.from(session.id, 'hex'), request.now);
      if (result !== undefined)
        await recordAuditEntry(tx, { action, userId, origin: originOf(request), now: request.now });
      return result;
    });
    const what = MAILED[action];
    if (done !== undefined && what !== undefined) mailer?.send(factorChangedMail({ to: email, what, authUrl }));
    return done;
  };
}

async function firstCodes(tx: Queryable, userId: number): Promise<string[]> {
  const { recoveryCodes } = await findFactors(tx, userId);
  return recoveryCodes > 0 ? [] : renewRecoveryCodes(tx, userId);
}

/** Deletes the recovery codes of a user who has no factor left that they could replace. */
async function endCodesWithoutFactor(tx: Queryable, userId: number): Promise<void> {
  if (!hasSecondFactor(await findFactors(tx, userId))) await deleteRecoveryCodes(tx, userId);
}

const passkeyIdOf = (request: RawRequest): number => idIn(request, 'passkey_id', 'passkey');

/** Returns the name of a form; undefined if it is empty or too long. */
function nameOf({ form }: RawRequest): string | undefined {
  const name = form.get('name')?.trim() ?? '';
  return name === '' || isLonger(name, PASSKEY_NAME_LENGTH_MAX) ? undefined : name;
}

const doneAnswer = (root: string, what: string): RawResponse => redirectAnswer(`${enrolmentPath(root)}?done=${what}`);

/** The page of new recovery codes; without any, the page of the settings with what was done. */
const codesOr = (root: string, codes: readonly string[], what: string): RawResponse =>
  codes.length > 0 ? htmlAnswer(200, recoveryCodesPage(root, codes)) : doneAnswer(root, what);

type Show = (request: RawRequest, session: Session, alert?: string) => Promise<RawResponse>;

/** The name of a provider; of one that is no longer configured, its host. */
const providerNameOf = (providers: readonly OpenIdProvider[], issuer: string): string =>
  providers.find((provider) => new URL(provider.issuer).href === new URL(issuer).href)?.name ?? new URL(issuer).host;

/** Reads what the page of the settings shows. */
async function readView(
  { sql, config }: Runtime,
  { verified, factors: { passkeys, passkeyScripts } }: People,
  { request, session, alert }: { request: RawRequest; session: Session; alert: string | undefined },
) {
  const { userId: id, email, mustEnrol } = session;
  const factors = await findFactors(sql, id);
  const requiring = (['store', 'role'] as const).find((one) => one === request.query.get('required_by'));
  return {
    root: rootOf(config.authUrl),
    factors,
    identities: await listIdentities(sql, id),
    providerOf: (issuer: string): string => providerNameOf(config.accounts.openIdProviders, issuer),
    /** What requires a second factor of a person who has none. */
    requiredBy: mustEnrol ? ('service' as const) : hasSecondFactor(factors) ? undefined : requiring,
    done: alert === undefined ? request.query.get('done') : null,
    alert,
    creationOptions: await passkeys.creationOptions({ id, email }, factors.passkeys, request.now),
    passkeyScripts,
    nonce: (bound: readonly (string | number)[]) => verified.nonce(session, bound),
  };
}
export type SecurityView = Awaited<ReturnType<typeof readView>>;

const createShow =
  (runtime: Runtime, people: People): Show =>
  async (request, session, alert) => {
    const view = await readView(runtime, people, { request, session, alert });
    return htmlAnswer(alert === undefined ? 200 : 422, securityPage(view), { hasScripts: true });
  };

/** What all settings share: the path prefix, the frame of a change, and the page. */
type Frame = { root: string; changed: ReturnType<typeof createChanges>; show: Show };

function createPasskeySettings({ verified, factors: { passkeys } }: People, { root, changed, show }: Frame) {
  return {
    show: verified.enrolmentPage((request, session) => show(request, session)),

    addPasskey: verified.enrolmentForm(
      () => ['passkeys', 'add'],
      async (request, session) => {
        const { userId } = session;
        const name = nameOf(request);
        if (name === undefined) return show(request, session, NO_NAME);
        const given = { userId, response: request.form.get(REGISTRATION_FIELD) ?? '', name, now: request.now };
        const codes = await changed(request, session, 'passkey_added', async (tx) => {
          if ((await findFactors(tx, userId)).passkeys.length >= PASSKEYS_MAX) return undefined;
          return (await passkeys.store(tx, given)) ? firstCodes(tx, userId) : undefined;
        });
        return codes === undefined ? show(request, session, NOT_ADDED) : codesOr(root, codes, 'passkey');
      },
    ),

    renamePasskey: verified.enrolmentForm(
      (request) => ['passkey', passkeyIdOf(request), 'rename'],
      async (request, session) => {
        const name = nameOf(request);
        if (name === undefined) return show(request, session, NO_NAME);
        const of = { userId: session.userId, id: passkeyIdOf(request), name };
        const renamed = await changed(request, session, 'passkey_renamed', async (tx) =>
          (await renamePasskey(tx, of)) ? true : undefined,
        );
        if (renamed === undefined) throw notFound('passkey');
        return doneAnswer(root, 'renamed');
      },
    ),

    removePasskey: verified.enrolmentForm(
      (request) => ['passkey', passkeyIdOf(request), 'remove'],
      async (request, session) => {
        const { userId } = session;
        const removed = await changed(request, session, 'passkey_removed', async (tx) => {
          const name = await deletePasskey(tx, { userId, id: passkeyIdOf(request) });
          await endCodesWithoutFactor(tx, userId);
          return name;
        });
        if (removed === undefined) throw notFound('passkey');
        return doneAnswer(root, 'removed');
      },
    ),
  };
}

function createAppSettings({ sealer, config: { authUrl } }: Runtime, { verified }: People, { root, changed }: Frame) {
  const showApp = (session: Session, secret: string, alert?: string): RawResponse => {
    const address = addressOf(secret, { issuer: new URL(authUrl).host, label: session.email });
    const nonce = verified.nonce(session, ['app', 'set', secret]);
    return htmlAnswer(alert === undefined ? 200 : 422, appPage({ root, secret, address, nonce, alert }));
  };

  return {
    showApp: verified.enrolmentPage(async (_request, session) => showApp(session, createSecret())),

    setApp: verified.enrolmentForm(
      // The token is bound to the secret, so it is one that the server made.
      ({ form }) => ['app', 'set', form.get('secret') ?? ''],
      async (request, session) => {
        const { userId } = session;
        const { form, now } = request;
        const [secret, code] = [form.get('secret') ?? '', (form.get('code') ?? '').replaceAll(/\s/g, '')];
        const codes = await changed(request, session, 'authenticator_app_set', async (tx) =>
          (await storeApp(tx, sealer, { userId, secret, code, now })) ? firstCodes(tx, userId) : undefined,
        );
        return codes === undefined ? showApp(session, secret, WRONG_CODE) : codesOr(root, codes, 'app');
      },
    ),

    removeApp: verified.enrolmentForm(
      () => ['app', 'remove'],
      async (request, session) => {
        const { userId } = session;
        await changed(request, session, 'authenticator_app_removed', async (tx) => {
          if (!(await deleteApp(tx, userId))) return undefined;
          await endCodesWithoutFactor(tx, userId);
          return true;
        });
        return doneAnswer(root, 'app-removed');
      },
    ),

    renewCodes: verified.enrolmentForm(
      () => ['recovery-codes'],
      async (request, session) => {
        const codes = await changed(request, session, 'recovery_codes_renewed', async (tx) =>
          hasSecondFactor(await findFactors(tx, session.userId)) ? renewRecoveryCodes(tx, session.userId) : undefined,
        );
        return codesOr(root, codes ?? [], 'codes');
      },
    ),
  };
}

/** Whether the person could still sign in without one of the linked providers. */
async function hasOtherSignIn(tx: Queryable, userId: number): Promise<boolean> {
  if ((await listIdentities(tx, userId)).length > 1 || (await hasPassword(tx, userId))) return true;
  return (await findFactors(tx, userId)).passkeys.length > 0;
}

const identityIdOf = (request: RawRequest): number => idIn(request, 'identity_id', 'provider');

export function createSecurity(runtime: Runtime, people: People) {
  const root = rootOf(runtime.config.authUrl);
  const frame = { root, changed: createChanges(runtime), show: createShow(runtime, people) };
  return {
    ...createPasskeySettings(people, frame),
    ...createAppSettings(runtime, people, frame),
    unlinkProvider: people.verified.sensitiveForm(
      (request) => ['provider', identityIdOf(request), 'unlink'],
      async (request, session) => {
        const { userId } = session;
        let isOnly = false;
        const unlinked = await frame.changed(request, session, 'external_identity_unlinked', async (tx) => {
          isOnly = !(await hasOtherSignIn(tx, userId));
          return isOnly ? undefined : deleteIdentity(tx, { userId, id: identityIdOf(request) });
        });
        if (isOnly) return frame.show(request, session, ONLY_SIGN_IN);
        if (unlinked === undefined) throw notFound('provider');
        return doneAnswer(root, 'unlinked');
      },
    ),
  };
}
