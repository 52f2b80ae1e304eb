/**
 * Tokens without a redirect address, for a program that only its owner uses: the owner of an app allows it on the consent page, and is
 * shown its tokens there, once.
 */
import { cardPage, accountNav, choice } from '#identity/accounts/page-kit.ts';
import { invalid, invalidValue, suspended } from '#core/problem.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import {
  createConsentPage,
  decidingSession,
  openConsent,
  type Consent,
  type Consenting,
} from './authorize/authorize.ts';
import { ownClientOf, pathOf } from './clients/client-form.ts';
import type { Client } from './clients/clients-sql.ts';
import type { Granted } from './grants-sql.ts';
import { hashToken, redeem } from './oauth-tokens.ts';
import { FULL_SCOPES, mayAskFor, permissionsAmong, readScope, scopeNames } from './scope.ts';

const DAY_MS = 86_400_000;
const DAYS = [30, 90, 365];

const WHOLE = {
  store_full_access: ['One store, with everything in it', 'You choose the store next.'],
  user_full_access: ['Your account, with all its stores', 'Everything that you can do in them.'],
} as const;
const PARTS = ['Parts of one store', 'You choose the store and the parts next.'] as const;

/** Returns the choices of a scope for which the app is registered. Its limited scopes are chosen on the consent page. */
function scopeChoices({ scopes }: Client): Markup[] {
  const registered: readonly string[] = scopes ?? FULL_SCOPES;
  const limited = permissionsAmong(registered).join(' ');
  const offered = [limited, ...FULL_SCOPES.filter((scope) => registered.includes(scope))].filter(
    (value) => value !== '',
  );
  return offered.map((value, index) => {
    const [label, hint] = value === limited ? PARTS : WHOLE[value as keyof typeof WHOLE];
    return choice({ name: 'scope', value, isRadio: true, isChecked: index === 0, label, hint });
  });
}

/** Renders the card of an app's page that leads to its tokens for the owner. */
export function ownTokenCard({ root, client }: { root: string; client: Client }): Markup {
  return html`<div class="card">
    <h2 id="tokens">Tokens for yourself</h2>
    <p>A program that only you use needs no redirect address: allow it here, and copy its tokens.</p>
    <form method="get" action="${pathOf(root, client.clientId)}/token">
      <fieldset>
        <legend>What may it reach?</legend>
        ${scopeChoices(client)}
      </fieldset>
      <div class="field">
        <label for="days">Its access ends</label>
        <select id="days" name="days">
          <option value="">when you disconnect it</option>
          ${DAYS.map((days) => html`<option value="${days}">after ${days} days</option>`)}
        </select>
      </div>
      <div class="buttons"><button type="submit" class="quiet">Continue</button></div>
    </form>
  </div>`;
}

/** Returns when the access ends; null if it is kept. Throws a 400 for a number of days that cannot be chosen. */
function endOf({ query, now }: RawRequest): Date | null {
  const text = query.get('days') ?? '';
  if (text === '') return null;
  const days = DAYS.find((one) => String(one) === text);
  if (days === undefined) throw invalid(invalidValue('days', `days must be one of ${DAYS.join(', ')}, or empty`));
  return new Date(now.getTime() + days * DAY_MS);
}

/** Redeems the code of the approval for its owner, and shows the tokens. */
async function showTokens(
  { runtime: { sql, config }, root }: Consenting,
  { client, ends, now }: { client: Client; ends: Date | null; now: Date },
  { code, granted }: { code: string; granted: Granted },
): Promise<RawResponse> {
  const tokens = await redeem(sql, hashToken(code), granted, { lifetimes: config.oauth, now });
  if (tokens === undefined) throw new Error('The code of the approval was redeemed already');
  const { access_token: access, refresh_token: refresh } = tokens;
  const { clientId, isPublic } = client;
  const { baseUrl, naming } = config;
  const credentials = isPublic ? `-d client_id=${clientId}` : `-u '${clientId}:<client secret>'`;
  const page = cardPage(
    'Tokens created',
    html`<p class="good" role="status">
        Copy the tokens now, and store them like a password. They are shown only once.
      </p>
      ${!isPublic && html`<p>Tokens that this app had from you for the same, if any, work for another day.</p>`}
      <dl>
        <dt>Access token</dt>
        <dd><code>${access}</code></dd>
        <dt>Refresh token</dt>
        <dd><code>${refresh}</code></dd>
        <dt>Ends</dt>
        <dd>${ends === null ? 'When you disconnect the app' : shownDate(ends)}</dd>
      </dl>
      <p>The API, with the access token:</p>
      <pre><code>curl -H '${naming.versionHeader}: 1' -H 'Authorization: Bearer ${access}' ${baseUrl}</code></pre>
      <p>
        The next access token, with the refresh token${!isPublic && ' and the client secret'}. Store the refresh token
        of each response: it may be another one.
      </p>
      <pre><code>curl ${credentials} -d grant_type=refresh_token -d refresh_token=${refresh} ${baseUrl}/token</code></pre>
      <div class="buttons"><a class="button quiet" href="${pathOf(root, clientId)}">Open the app's page</a></div>`,
    accountNav(root, 'apps'),
  );
  return htmlAnswer(200, page);
}

async function prepare(consenting: Consenting, rawRequest: RawRequest): Promise<Consent | RawResponse> {
  const { runtime, root } = consenting;
  const { query, params, now } = rawRequest;
  const page = `account/clients/${params['client_id'] ?? ''}/token`;
  const session = await decidingSession(consenting, page, rawRequest);
  if ('status' in session) return session;
  const client = await ownClientOf(runtime.sql, rawRequest, session);
  if (client.suspendedReason !== null) throw suspended('app', client.suspendedReason);
  const scope = readScope(query.get('scope') ?? '');
  if (scope === undefined || !mayAskFor(client.scopes, scope))
    throw invalid(invalidValue('scope', 'scope must be scopes of the app'));
  const ends = endOf(rawRequest);
  return openConsent(consenting, {
    request: { client, scope, redirectUri: null, codeChallenge: null, own: { ends } },
    session,
    flow: {
      page,
      formTargets: [],
      bound: ['own token', client.id, scopeNames(scope).join(' '), scope.storeId ?? null, query.get('days') ?? ''],
      allowed: (code, granted) => showTokens(consenting, { client, ends, now }, { code, granted }),
      denied: () => redirectAnswer(pathOf(root, client.clientId)),
    },
  });
}

/** GET and POST /account/clients/<client_id>/token: the consent page for the owner of the app. GET changes nothing. */
export function createOwnToken(consenting: Consenting): { show: RawHandler; decide: RawHandler } {
  return createConsentPage(consenting, (request) => prepare(consenting, request));
}
