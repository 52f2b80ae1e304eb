/**
 * Links of the platform to the pages of one store: POST {base_url}/stores/<id>/links makes one for a member, and GET and POST /portal
 * let the person in, who is signed in at the platform. GET changes nothing, because programs open links in advance. The session that begins
 * is for that store alone, with the rights of a member who is no owner, and has proved nothing: for everything else the person signs in.
 */
import { inPerson } from '#changelog/changelog.ts';
import { shardOf } from '#core/ids.ts';
import { Problem, conflict, invalid, invalidValue, temporary, suspended } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import { transaction } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { accepting, type ApiRequest, type Operation } from '#http/operation.ts';
import { rootOf } from '#http/root.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { findCredentials, lockUser, type Credentials } from '#identity/accounts/accounts-sql.ts';
import { originOf, recordAuditEntry } from '#identity/accounts/audit.ts';
import { followLink, newLinkToken } from '#identity/accounts/mailed-links.ts';
import { cardPage, postForm } from '#identity/accounts/page-kit.ts';
import type { People } from '#identity/accounts/people.ts';
import { deletePortalLink, findPortal, insertPortalLink, type PortalRow } from '#identity/accounts/links-sql.ts';
import { frameOriginsOf } from '#identity/accounts/sessions.ts';
import { returnPath } from '#identity/accounts/signed-in.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { byOf, recordPortalLink, type MemberEffects } from '#stores/audited-changes.ts';
import { lockMember } from '#stores/members/members-sql.ts';
import { newPortalLink, portalLinkDocument } from '#stores/members/member.ts';
import { addressOfStore } from '#stores/store-document.ts';
import { storeOf } from '#stores/store.ts';
import type { StoreRow } from '#stores/stores-sql.ts';

const LINK_SECONDS = 60;
/** Unused links of a member in a store; an older one ends. */
const LINKS_KEPT = 5;

const NOT_A_MEMBER = invalidValue('user', 'user must be the id of a member of the store');

/** Throws the reason why no link can let the person into the store. */
function requireOpen(store: StoreRow, user: Credentials | undefined, requiresSecondFactor: boolean): void {
  if (store.suspendedReason !== null) throw suspended('store', store.suspendedReason);
  if (requiresSecondFactor || store.secondFactor === 'required') {
    const message = 'A second factor is required to open this store, which a link does not prove: the member signs in';
    throw conflict('second_factor_required', message);
  }
  if (user === undefined) throw invalid(NOT_A_MEMBER);
  if (user.disabledReason !== null) throw suspended('account', user.disabledReason);
  if (user.isDisabled)
    throw new Problem(403, { code: 'account_disabled', message: 'The account of this member is disabled' });
  // Who made the account with an invitation may be another person than the one whom the platform knows by the address.
  if (!user.isEmailVerified) {
    const message = 'The e-mail address of this member is not verified: a link to choose a password verifies it';
    throw new Problem(409, { code: 'email_not_verified', message, field: 'user' });
  }
}

function createMake({ sql, config }: Runtime, { throttle }: People, { changelog }: MemberEffects): Operation {
  const { baseUrl, authUrl, accounts } = config;
  return accepting({
    title: 'Make a link to the pages of this store',
    summary:
      'Makes a link that lets a member into the pages of the store, once, within 60 seconds; needs the scope platform',
    access: 'platform',
    statuses: [201],
    input: newPortalLink,
    admit: async (request) => void (await storeOf(sql.reads, request)),
    handle: async (request: ApiRequest<{ user: number }>) => {
      const { principal, now, body } = request;
      const { clientId } = principal;
      if (clientId === null) throw new TypeError('A request of the platform has no client');
      const store = await storeOf(sql, request);
      const key = { ...storeOfAddress(request), userId: body.user };
      requireOpen(store, await findCredentials(sql, key.userId), accounts.requiresSecondFactor);
      const subject = `${key.storeId} ${key.userId}`;
      const taken = await throttle.take([{ limit: 'portal links to member', subject }], now);
      if (!taken.allowed) {
        const message = `Too many links for this member; wait ${taken.retryAfterSeconds} s`;
        throw temporary(429, { code: 'too_many_requests', message }, taken.retryAfterSeconds);
      }
      const { token, hash } = newLinkToken('portal');
      const expires = new Date(now.getTime() + LINK_SECONDS * 1_000);
      const member = await transaction(sql, async (tx) => {
        const found = await lockMember(tx, key);
        if (found === undefined) throw invalid(NOT_A_MEMBER);
        await insertPortalLink(tx, { ...key, hash, client: clientId, now, expires, kept: LINKS_KEPT });
        await recordPortalLink(tx, found, 'link_created', byOf(changelog, request));
        const entry = { userId: key.userId, client: clientId, storeId: key.storeId, origin: originOf(request), now };
        await recordAuditEntry(tx, { ...entry, action: 'portal_link_created' });
        return found;
      });
      const url = `${authUrl}/portal?${new URLSearchParams({ token }).toString()}`;
      const document = portalLinkDocument(member, { baseUrl, url, expires });
      return { status: 201, document, location: url, isSecret: true };
    },
  });
}

/** Renders a page of the portal, which frames may contain if the browser loads it into one. */
const shown = (
  { config }: Pick<Runtime, 'config'>,
  request: RawRequest,
  { status = 200, title, content }: { status?: number; title: string; content: Markup },
): RawResponse => htmlAnswer(status, cardPage(title, content), { frameOrigins: frameOriginsOf(config, request) });

/** Returns the 410 of a link that is not valid. */
const invalidPage = (runtime: Pick<Runtime, 'config'>, request: RawRequest): RawResponse =>
  shown(runtime, request, {
    status: 410,
    title: 'Link not valid',
    content: html`<p class="alert" role="alert">
        The link was already used, has expired, or no longer opens the store.
      </p>
      <p>Open the store again where you found the link.</p>`,
  });

/** Renders the page that a frame shows in place of the sign-in, which no frame may contain. */
const windowPage = (path: string): Markup =>
  html`<p>Your visit has ended, or what you want to do needs a sign-in. Nothing was changed.</p>
    <p><a class="button" target="_blank" href="${path}">Sign in in a new window</a></p>
    <p class="soft">To go on here, load the page around this one again.</p>`;

/**
 * Uses the link, and returns the cookies of the session that it begins; undefined if it is no longer valid. The locks are those of an end of
 * the account or of the membership, in their order.
 */
async function letIn(
  { sql }: Pick<Runtime, 'sql'>,
  { sessions }: People,
  { changelog }: MemberEffects,
  { link, request, isFramed }: { link: PortalRow & { hash: Buffer }; request: RawRequest; isFramed: boolean },
): Promise<string[] | undefined> {
  const { userId, storeId, hash } = link;
  const { now } = request;
  // Before the transaction: in it, requests that wait for its locks could have all connections.
  const session = isFramed ? null : await sessions.find(request);
  return transaction(sql, async (tx) => {
    await lockUser(tx, userId);
    const member = await lockMember(tx, { shard: shardOf(storeId), storeId, userId });
    const still = member && (await findPortal(tx, { hash, isUsed: false, now }));
    if (member === undefined || still === undefined) return undefined;
    // The whole sign-in of the same person is worth more than the session of the link.
    const isSignedIn = session?.userId === userId;
    const cookie = isSignedIn ? undefined : await sessions.startPortal(tx, { hash, isFramed }, now);
    if (isSignedIn ? !(await deletePortalLink(tx, hash)) : cookie === undefined) return undefined;
    await recordPortalLink(tx, member, 'link_used', { changelog, actor: inPerson(userId), now });
    const entry = { userId, client: link.client, storeId, origin: originOf(request), now };
    await recordAuditEntry(tx, { ...entry, action: 'portal_link_used' });
    if (cookie === undefined) return [];
    if (!isFramed) await sessions.end(tx, request);
    return [cookie];
  });
}

/** GET and POST /portal. */
function createPages(runtime: Runtime, people: People, effects: MemberEffects): Record<'show' | 'submit', RawHandler> {
  const { sql, config } = runtime;
  const { baseUrl, authUrl, accounts } = config;
  const root = rootOf(authUrl);
  const link = followLink<PortalRow, [RawRequest]>('portal', {
    find: async (hash, now) =>
      accounts.requiresSecondFactor ? undefined : findPortal(sql, { hash, isUsed: false, now }),
    invalid: (request) => invalidPage(runtime, request),
    // The person decides, so that no other site can put them into the store of another person.
    show: async ({ storeName, userId, email, token }, request) => {
      const session = frameOriginsOf(config, request).length === 0 ? await people.sessions.find(request) : null;
      const content = html`<p>You open this store as <strong>${email}</strong>.</p>
        ${
          session !== null &&
          session.userId !== userId &&
          html`<p class="alert">
            This browser is signed in as <strong>${session.email}</strong>, and will be signed out of that account.
          </p>`
        }
        ${postForm({ action: `${root}/portal`, hidden: { token }, submit: `Open ${storeName}` })}`;
      return shown(runtime, request, { title: storeName, content });
    },
    submit: async (request, found) => {
      const isFramed = frameOriginsOf(config, request).length > 0;
      const cookies = await letIn(runtime, people, effects, { link: found, request, isFramed });
      if (cookies === undefined) return invalidPage(runtime, request);
      const { pathname } = new URL(`${addressOfStore(found.storeId, baseUrl)}/overview`);
      return redirectAnswer(pathname, cookies.length === 0 ? {} : { 'Set-Cookie': cookies });
    },
  });
  return {
    show: async (request) => {
      const path = returnPath(request.query.get('return_to'));
      if (path === undefined) return link.show(request, request);
      if (frameOriginsOf(config, request).length > 0)
        return shown(runtime, request, { title: 'Sign in to go on', content: windowPage(path) });
      return redirectAnswer(`${root}/sign-in?${new URLSearchParams({ return_to: path }).toString()}`);
    },
    submit: (request) => link.submit(request, request),
  };
}

/** `make` is the operation of the platform; `show` and `submit` are the page to which a link leads. */
export function createPortal(runtime: Runtime, people: People, effects: MemberEffects) {
  return { make: createMake(runtime, people, effects), ...createPages(runtime, people, effects) };
}
