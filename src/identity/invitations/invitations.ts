/** Accepts an invitation to a store: GET and POST /invitations/<token>. Sends the mails of invitations. */
import { findUserByEmail } from '#identity/accounts/accounts-sql.ts';
import { originOf } from '#identity/accounts/audit.ts';
import { askForLink, invalidLink } from '#identity/accounts/mailed-links.ts';
import { invitationMail } from '#identity/accounts/account-mails.ts';
import {
  accountNav,
  INVALID_EMAIL,
  noticeAnswer,
  passwordFieldFault,
  tooManyAnswer,
  unverifiedAnswer,
  type FormFault,
  type FormHandlers,
} from '#identity/accounts/page-kit.ts';
import type { People } from '#identity/accounts/people.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import {
  findSignUpLink,
  SIGN_UP_FAILURE,
  signUpMailTo,
  signUpSent,
  type SignUpLink,
} from '#identity/accounts/sign-up.ts';
import { deleteSignUps } from '#identity/accounts/links-sql.ts';
import { addressPrefix } from '#core/address-prefix.ts';
import type { Bucket, Throttle } from '#identity/accounts/throttle.ts';
import type { UserErasure } from '#identity/accounts/user-end.ts';
import { addUser, prepareUser } from '#identity/accounts/users.ts';
import { isFor, NotAccepted, type InvitationMails } from '#stores/invitations/invitation-operations.ts';
import { findOffered, type OfferedInvitation } from '#stores/invitations/invitations-sql.ts';
import { hashOfToken } from '#stores/invitations/invitation.ts';
import { addressOfStore } from '#stores/store-document.ts';
import { findMember } from '#stores/members/members-sql.ts';
import type { MemberEffects } from '#stores/audited-changes.ts';
import { transaction, type Tx } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html } from '#hypermedia/markup.ts';
import { readEmail } from '#core/email.ts';
import { isInPerson } from '#core/principal.ts';
import { Problem, temporary } from '#core/problem.ts';
import type { Mailer } from '#mail/mailer.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { acceptIn, acceptPage, newPersonPage, signInPath } from './invitation-pages.ts';

/** `root` is the path prefix of the pages, without a trailing slash. */
type Context = { runtime: Runtime; people: People; effects: MemberEffects; erasure: UserErasure; root: string };

/** The request with the valid invitation of its link. */
type Visit = { request: RawRequest; token: string; invitation: OfferedInvitation };

const TAKEN: FormFault = {
  field: 'email',
  message:
    'There is an account with this e-mail address: sign in to it, and join the store then. If you cannot, choose a new password, or ask the operator for a link to one.',
};

const boundTo = ({ params }: Pick<RawRequest, 'params'>) => ['invitation', params['token'] ?? ''] as const;

const staleProof = ({ root }: Context, token: string) => invalidLink(`${root}/invitations/${token}`);

const ADVICE = html`<p>A valid invitation stays valid.</p>`;

const tooMany = ({ root }: Context, taken: { retryAfterSeconds: number }) => tooManyAnswer(root, taken, ADVICE);

const overviewPath = ({ runtime }: Context, { storeId }: OfferedInvitation): string =>
  new URL(`${addressOfStore(storeId, runtime.config.baseUrl)}/overview`).pathname;

const joined = (context: Context, { invitation }: Visit, cookies: readonly string[] = []): RawResponse =>
  redirectAnswer(`${overviewPath(context, invitation)}?done=joined`, { 'Set-Cookie': cookies });

/** Returns the page of a link that leads to no valid invitation, without saying why. */
const invalidInvitation = ({ root }: Context): RawResponse =>
  noticeAnswer(410, {
    title: 'Invitation not valid',
    alert: 'The link was already used, was revoked, or has expired.',
    message: 'Ask the person who invited you for another one.',
    link: { href: `${root}/account`, label: 'Your account' },
  });

/** Returns the page of an invitation that cannot be accepted. Rethrows other errors. */
function refuse(context: Context, { token, invitation }: Visit, email: string, thrown: unknown): RawResponse {
  if (!(thrown instanceof NotAccepted)) throw thrown;
  const { root, runtime } = context;
  const nav = accountNav(root);
  switch (thrown.refusal) {
    case 'ended':
      return invalidInvitation(context);
    case 'other address':
      // The address of the invitation is not shown.
      return noticeAnswer(403, {
        title: 'Invitation for another account',
        message: `You are signed in as ${email}, and this invitation is for another e-mail address.`,
        link: { href: signInPath({ root, token }), label: 'Sign in with another account', isButton: true },
        nav,
      });
    case 'already member':
      return noticeAnswer(409, {
        title: 'You are a member already',
        message: 'Your role in the store stays as it is, and the invitation stays valid.',
        link: { href: overviewPath(context, invitation), label: 'Open the store', isButton: true },
        nav,
      });
    case 'store full':
      return noticeAnswer(409, {
        title: 'The store has no place',
        message: `A store has at most ${runtime.config.stores.membersPerStore} members. The invitation stays valid: ask an owner to remove a member first.`,
        nav,
      });
  }
}

async function showTo(context: Context, visit: Visit, session: Session): Promise<RawResponse> {
  const { invitation, token, request } = visit;
  const { email, userId } = session;
  if (!session.isEmailVerified) return unverifiedAnswer(context.root, email);
  if (!isFor(invitation, email)) return refuse(context, visit, email, new NotAccepted('other address'));
  if ((await findMember(context.runtime.sql, { ...invitation, userId })) !== undefined)
    return refuse(context, visit, email, new NotAccepted('already member'));
  const nonce = context.people.signedIn.nonce(session, boundTo(request));
  return htmlAnswer(200, acceptPage({ root: context.root, token, invitation, email, nonce }));
}

async function acceptAs(context: Context, visit: Visit, session: Session): Promise<RawResponse> {
  const { userId: id, email } = session;
  if (!session.isEmailVerified) return unverifiedAnswer(context.root, email);
  try {
    const { config, sql } = context.runtime;
    await transaction(sql, (tx) =>
      acceptIn(tx, config, context.effects, { ...visit, userOf: async () => ({ id, email }) }),
    );
  } catch (thrown) {
    return refuse(context, visit, email, thrown);
  }
  return joined(context, visit);
}

/** A person without an account. `link` is the one that verified the address, if the token of the invitation was not mailed. */
type Newcomer = { email: string; isVerified: boolean; link: SignUpLink | undefined };

/** Creates the account, makes it a member, and returns the cookies of its session. */
async function join(context: Context, visit: Visit, { email, isVerified }: Newcomer, password: string) {
  const { request } = visit;
  const { now } = request;
  const { passwords, sessions, factors } = context.people;
  const user = { ...(await prepareUser(passwords, { email, password })), isEmailVerified: isVerified };
  const by = { origin: originOf(request), now };
  const userOf = async (tx: Tx) => {
    if (isVerified) {
      // The links of the address end. Of two that are used at once, one finds the address taken.
      await deleteSignUps(tx, email);
      await context.erasure.eraseUnverified(tx, email, request);
    }
    return { ...(await addUser(tx, user, by)), email };
  };
  const { config, sql } = context.runtime;
  const session = await transaction(sql, async (tx) =>
    sessions.start(tx, await acceptIn(tx, config, context.effects, { ...visit, userOf }), request),
  );
  return [session, ...factors.devices.remember(request, user)];
}

/** Returns the answer to too many attempts without mail, where a refusal shows that the address has an account. */
async function throttled(context: Context, { request, invitation }: Visit): Promise<RawResponse | undefined> {
  const buckets: Bucket[] = [{ limit: 'taken address from network', subject: addressPrefix(request.address) }];
  if (invitation.createdBy !== null)
    buckets.push({ limit: 'taken address by inviter', subject: String(invitation.createdBy) });
  // The throttle keeps the count, so that both outcomes count alike.
  const taken = await context.people.throttle.take(buckets, request.now);
  return taken.allowed ? undefined : tooMany(context, taken);
}

async function createAccount(context: Context, visit: Visit, newcomer: Newcomer): Promise<RawResponse> {
  const { request, token, invitation } = visit;
  const { runtime, root } = context;
  const { email, isVerified, link } = newcomer;
  const password = request.form.get('password') ?? '';
  const ask = isVerified ? 'password' : 'both';
  const again = (fault: FormFault) =>
    htmlAnswer(422, newPersonPage({ root, token, invitation, email, ask, proof: link?.token, fault }));
  if (email === '') return again(INVALID_EMAIL);
  const weak = await passwordFieldFault({ email, password, hasSecondFactor: false });
  if (weak !== undefined) return again(weak);
  const refused = isVerified ? undefined : await throttled(context, visit);
  if (refused !== undefined) return refused;
  const user = await findUserByEmail(runtime.sql, email);
  if (user !== undefined && (user.isEmailVerified || !isVerified)) return again(TAKEN);
  try {
    return joined(context, visit, await join(context, visit, newcomer, password));
  } catch (thrown) {
    // The account was made concurrently.
    if (thrown instanceof Problem && thrown.status === 409) return again(TAKEN);
    return refuse(context, visit, email, thrown);
  }
}

/** Mails the link that verifies the address; the answer does not show whether the address has an account. */
function mailLink({ runtime, people, root }: Context, mailer: Mailer, visit: Visit): Promise<RawResponse> {
  const { request, token, invitation } = visit;
  const { sql, config } = runtime;
  const { authUrl, accounts } = config;
  const signInAt = new URL(signInPath({ root, token }), authUrl).href;
  const inviter = String(invitation.createdBy ?? 'the platform');
  const at = { confirmAt: `${authUrl}/invitations/${token}`, signInAt, inviter };
  return askForLink(runtime, people.throttle, request, {
    typed: invitation.email ?? request.form.get('email') ?? '',
    refuse: (email) =>
      htmlAnswer(422, newPersonPage({ root, token, invitation, email, ask: 'email', fault: INVALID_EMAIL })),
    mailTo: async (email) => signUpMailTo({ sql, config, mailer }, request, email, at),
    advice: ADVICE,
    sent: (email) =>
      signUpSent(email, { lifetimeMinutes: accounts.signUpMinutes, again: `${root}/invitations/${token}` }),
    failure: SIGN_UP_FAILURE,
  });
}

/** Shows the form for a visitor without a session: what has to be entered depends on what verifies the address. */
async function showToNew(context: Context, { request, token, invitation }: Visit): Promise<RawResponse> {
  const { runtime, root } = context;
  const { sql, mailer } = runtime;
  const given = request.query.get('token');
  const link = await findSignUpLink(sql, given, request.now);
  if (given !== null && link === undefined) return staleProof(context, token);
  const email = link?.email ?? invitation.email ?? '';
  const ask = link !== undefined || invitation.isMailed ? 'password' : mailer === undefined ? 'both' : 'email';
  return htmlAnswer(200, newPersonPage({ root, token, invitation, email, ask, proof: link?.token, fault: undefined }));
}

async function acceptAsNew(context: Context, visit: Visit): Promise<RawResponse> {
  const { request, token, invitation } = visit;
  const { sql, mailer } = context.runtime;
  const { form, now } = request;
  const link = await findSignUpLink(sql, form.get('token'), now);
  if (form.has('token') && link === undefined) return staleProof(context, token);
  const isVerified = link !== undefined || invitation.isMailed;
  if (!isVerified && mailer !== undefined) return mailLink(context, mailer, visit);
  const email = link?.email ?? invitation.email ?? readEmail(form.get('email') ?? '') ?? '';
  return createAccount(context, visit, { email, isVerified, link });
}

/** Looks up the invitation. Lookups that find none are counted, so that tokens cannot be tried in great numbers. */
const withInvitation =
  (context: Context, handle: (visit: Visit) => Promise<RawResponse>): RawHandler =>
  async (request) => {
    const { runtime, people } = context;
    const token = request.params['token'] ?? '';
    const subject = addressPrefix(request.address);
    const taken = await people.throttle.take([{ limit: 'invitation from address', subject }], request.now);
    if (!taken.allowed) return tooMany(context, taken);
    const hash = hashOfToken(token);
    const invitation = hash && (await findOffered(runtime.sql, hash, request.now));
    if (invitation === undefined) return invalidInvitation(context);
    await taken.giveBack();
    return handle({ request, token, invitation });
  };

/** Without mail, an open link makes an account whose address is not verified. */
export function createInvitationPages(
  runtime: Runtime,
  people: People,
  { effects, erasure }: { effects: MemberEffects; erasure: UserErasure },
): FormHandlers {
  const { sessions, signedIn } = people;
  const context: Context = { runtime, people, effects, erasure, root: rootOf(runtime.config.authUrl) };
  return {
    // Does not consume the link, because mail scanners open links in advance.
    show: withInvitation(context, async (visit) => {
      const session = await sessions.find(visit.request);
      if (session !== null) return showTo(context, visit, session);
      return showToNew(context, visit);
    }),

    submit: withInvitation(context, async (visit) => {
      const { request } = visit;
      if ((await sessions.find(request)) === null) return acceptAsNew(context, visit);
      return signedIn.form(boundTo, (_request, session) => acceptAs(context, visit, session))(request);
    }),
  };
}

function tooManyMails(retryAfterSeconds: number): Problem {
  const message = `Too many invitations were mailed: wait ${retryAfterSeconds} s, or omit email and hand over the link`;
  return temporary(429, { code: 'too_many_requests', message, field: 'email' }, retryAfterSeconds);
}

/** Creates the mails of invitations, which are sent within their limits; undefined without mail. */
export function createInvitationMails(
  { mailer, config }: Pick<Runtime, 'mailer' | 'config'>,
  throttle: Throttle,
): InvitationMails | undefined {
  if (mailer === undefined) return undefined;
  return {
    admit: async (to, { principal, now }) => {
      const inviter = isInPerson(principal) ? String(principal.userId) : 'the platform';
      const buckets: Bucket[] = [{ limit: 'invitation to address', subject: `${to} by ${inviter}` }];
      if (isInPerson(principal))
        buckets.push(
          { limit: 'invitations by person', subject: inviter },
          { limit: 'mails of others to mailbox', subject: to },
        );
      const taken = await throttle.take(buckets, now);
      if (!taken.allowed) throw tooManyMails(taken.retryAfterSeconds);
    },
    send: (mail) => mailer.send(invitationMail(mail, config.authUrl)),
  };
}
