/**
 * GET and POST /device (RFC 8628 §3.3): a signed-in person enters the code of a device, and decides on the consent page. GET changes
 * nothing. The address with the code (`verification_uri_complete`) leads to the same page, which shows the code for comparison.
 */
import type { Session } from '#identity/accounts/sessions.ts';
import { enrolmentPath } from '#identity/accounts/signed-in.ts';
import { addressPrefix } from '#identity/accounts/throttle/prefix.ts';
import type { Throttle } from '#identity/accounts/throttle/throttle.ts';
import { tooManyAnswer, unverifiedAnswer } from '#identity/accounts/page-kit.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import type { Keys } from '#core/keys.ts';
import type { ConsentRequest } from '../authorize/authorization-request.ts';
import { decide, openConsent, showConsent, signIn, type AuthorizeDeps, type Consent } from '../authorize/authorize.ts';
import { findClient } from '../clients/clients-sql.ts';
import { mayAskFor, readScope, scopeNames } from '../scope.ts';
import { findPendingDevice } from './device-sql.ts';
import { readUserCode, shownUserCode, userCodeHashes } from './user-code.ts';

type Deps = AuthorizeDeps & { throttle: Throttle; userCodeKeys: Keys };

const MALFORMED = 'The code has eight letters, such as WDJB-MJHT. Enter the code that your device shows.';
const UNKNOWN =
  'This code is wrong, was used already or has expired. Compare it with your device, or start again there.';
const ADVICE = html`<p>Wait, then enter the code that your device shows.</p>`;

function entryPage(root: string, { typed, alert }: { typed: string; alert?: string }): string {
  return shell({
    title: 'Connect a device',
    main: html`<div class="card">
      <h1>Connect a device</h1>
      ${alert !== undefined && html`<p class="alert" role="alert">${alert}</p>`}
      <p>Enter the code that your device or terminal shows. Do not enter a code that another person has sent you.</p>
      <form method="get" action="${root}/device">
        <label for="user_code">Code</label>
        <input
          type="text"
          id="user_code"
          name="user_code"
          value="${typed}"
          required
          autocomplete="off"
          autocapitalize="characters"
          spellcheck="false"
        />
        <div class="buttons"><button type="submit">Continue</button></div>
      </form>
    </div>`,
  });
}

const outcomePage = (title: string, text: Markup): RawResponse =>
  htmlAnswer(
    200,
    shell({
      title,
      main: html`<div class="card">
        <h1>${title}</h1>
        ${text}
      </div>`,
    }),
  );

const ALLOWED = html`<p>The app has access now. Return to your device. You can close this page.</p>`;
const DENIED = html`<p>Nothing was shared with the app. You can close this page.</p>`;

/** Returns the request behind the code, or the response to a wrong one. Wrong codes are counted per address and person. */
async function readRequest(
  deps: Deps,
  session: Session,
  rawRequest: RawRequest,
): Promise<ConsentRequest | RawResponse> {
  const { sql, throttle, userCodeKeys, issuer } = deps;
  const root = rootOf(issuer);
  const { address, now, query } = rawRequest;
  const typed = query.get('user_code') ?? '';
  if (typed === '') return htmlAnswer(200, entryPage(root, { typed }));
  const userCode = readUserCode(typed);
  if (userCode === undefined) return htmlAnswer(422, entryPage(root, { typed, alert: MALFORMED }));
  const taken = await throttle.take(
    [
      { limit: 'user code from address', subject: addressPrefix(address) },
      { limit: 'user code by person', subject: String(session.userId) },
    ],
    now,
  );
  if (!taken.allowed) return tooManyAnswer(root, taken, ADVICE);
  const found = await findPendingDevice(sql, userCodeHashes(userCodeKeys, userCode), now);
  const client = found && (await findClient(sql, found.clientId));
  const scope = found && readScope(found.scope);
  // The registration of the client may have changed since the device asked.
  const isAllowed = client?.allowsDeviceGrant === true && scope !== undefined && mayAskFor(client.scopes, scope);
  if (found === undefined || client === undefined || scope === undefined || !isAllowed)
    return htmlAnswer(422, entryPage(root, { typed, alert: UNKNOWN }));
  await taken.giveBack();
  const device = { hash: found.hash, expires: found.expires, userCode: shownUserCode(userCode) };
  return { client, scope, redirectUri: null, codeChallenge: null, device };
}

async function prepare(deps: Deps, rawRequest: RawRequest): Promise<Consent | RawResponse> {
  const session = await deps.sessions.find(rawRequest);
  if (session === null) return redirectAnswer(signIn(deps, 'device', rawRequest));
  if (session.mustEnrol) return redirectAnswer(enrolmentPath(rootOf(deps.issuer)));
  if (!session.isEmailVerified) return unverifiedAnswer(rootOf(deps.issuer), session.email);
  const request = await readRequest(deps, session, rawRequest);
  if ('status' in request) return request;
  const { client, scope, device } = request;
  return openConsent(deps, {
    request,
    session,
    flow: {
      page: 'device',
      formTargets: [],
      bound: ['device', device?.hash.toString('hex'), client.id, scopeNames(scope).join(' '), scope.storeId ?? null],
      prepare: () => prepare(deps, rawRequest),
      allowed: () => outcomePage('Device connected', ALLOWED),
      denied: () => outcomePage('Access denied', DENIED),
    },
  });
}

export function createDevicePage(deps: Deps): { show: RawHandler; decide: RawHandler } {
  return {
    show: async (rawRequest) => {
      const consent = await prepare(deps, rawRequest);
      return 'status' in consent ? consent : showConsent(deps, consent, rawRequest);
    },
    decide: async (rawRequest) => {
      const consent = await prepare(deps, rawRequest);
      return 'status' in consent ? consent : decide(deps, consent, rawRequest);
    },
  };
}
