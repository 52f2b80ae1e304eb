/**
 * The device authorization grant (RFC 8628): POST /device_authorization issues the codes, and on /device a person enters the
 * user code.
 */
import { createHmac, randomInt } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import { addressPrefix } from '#core/address-prefix.ts';
import type { Throttle } from '#identity/accounts/throttle.ts';
import type { Sql } from '#db/pool.ts';
import { htmlAnswer, jsonAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { areOwnResources, readForm, type AuthenticateClient, answeringRefusals } from './protocol-requests.ts';
import { refusals, tokenErrors, TokenRefusal } from './oauth-errors.ts';
import { findAuthenticatedClient } from './grants-sql.ts';
import { mayAskFor, readScope, scopeNames } from './scope.ts';
import { createToken } from './oauth-tokens.ts';
import { findPendingDevice, insertDeviceAuthorization } from './authorize/authorize-sql.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import { cardPage, tooManyAnswer } from '#identity/accounts/page-kit.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { html } from '#hypermedia/markup.ts';
import type { ConsentRequest } from './authorize/authorization-request.ts';
import {
  createConsentPage,
  decidingSession,
  openConsent,
  type Consent,
  type Consenting,
} from './authorize/authorize.ts';
import { findClient } from './clients/clients-sql.ts';

// User codes (RFC 8628 §6.1): eight letters without vowels, so that they form no words, shown as `WDJB-MJHT`.
const ALPHABET = 'BCDFGHJKLMNPQRSTVWXZ';
const LENGTH = 8;
const CODE = new RegExp(`^[${ALPHABET}]{${LENGTH}}$`);

function newUserCode(): string {
  return Array.from({ length: LENGTH }, () => ALPHABET.charAt(randomInt(ALPHABET.length))).join('');
}

/** Returns the code that a person typed, in any case and with any hyphens and spaces; undefined if it cannot be one. */
function readUserCode(typed: string): string | undefined {
  const code = typed.replaceAll(/[-\s]/g, '').toUpperCase();
  return CODE.test(code) ? code : undefined;
}

function shownUserCode(code: string): string {
  return `${code.slice(0, LENGTH / 2)}-${code.slice(LENGTH / 2)}`;
}

/**
 * Returns the HMAC-SHA256 of the code under each key, the current one first. A plain hash of 20^8 possible codes could be reversed from
 * a dump of the database within seconds.
 */
function userCodeHashes([key, ...others]: Keys, code: string): [Buffer, ...Buffer[]] {
  const hash = (under: Buffer): Buffer => createHmac('sha256', under).update(code).digest();
  return [hash(key), ...others.map(hash)];
}

const LIFETIME_SECONDS = 600;
const POLL_SECONDS = 5;

/** With a million waiting codes, one of 25,000 new user codes is taken. */
const USER_CODES_TRIED_MAX = 5;

async function start(
  sql: Sql,
  userCodeKeys: Keys,
  { client, scope, now }: { client: number; scope: string; now: Date },
) {
  const { value, hash } = createToken('deviceCode');
  const expires = new Date(now.getTime() + LIFETIME_SECONDS * 1_000);
  for (let tried = 0; tried < USER_CODES_TRIED_MAX; tried += 1) {
    const userCode = newUserCode();
    const [userCodeHash] = userCodeHashes(userCodeKeys, userCode);
    const row = { hash, userCodeHash, client, scope, intervalSeconds: POLL_SECONDS, expires };
    if (await insertDeviceAuthorization(sql, row)) return { deviceCode: value, userCode: shownUserCode(userCode) };
  }
  throw new Error(`${USER_CODES_TRIED_MAX} new user codes were all taken`);
}

/** POST /device_authorization (RFC 8628 §3.1): a device without a browser gets a code for itself and one for its user. */
export function createDeviceAuthorization(
  { sql, config: { baseUrl, authUrl } }: Runtime,
  deps: { authenticate: AuthenticateClient; throttle: Throttle; userCodeKeys: Keys },
): RawHandler {
  const { authenticate, throttle, userCodeKeys } = deps;
  return answeringRefusals(async (request) => {
    const { address, now } = request;
    const form = readForm(request);
    // Limits the codes of all clients at an address together: with open registration anyone has clients with a secret, too. A request
    // counts before the client is known, so that refused ones are limited as well.
    const taken = await throttle.take([{ limit: 'device codes to address', subject: addressPrefix(address) }], now);
    if (!taken.allowed)
      throw new TokenRefusal(tokenErrors.tooManyDevices, { 'Retry-After': String(taken.retryAfterSeconds) });
    const client = await authenticate(request, form, (claim) => findAuthenticatedClient(sql.reads, claim));
    if (!client.allowsDeviceGrant) throw new TokenRefusal(tokenErrors.unauthorizedClient);
    if (!areOwnResources(request.form.getAll('resource'), baseUrl)) throw new TokenRefusal(tokenErrors.invalidTarget);
    const { scope } = form;
    if (scope === undefined) throw new TokenRefusal(tokenErrors.noScope);
    const requested = readScope(scope);
    if (requested === undefined) throw new TokenRefusal(tokenErrors.unsupportedScope);
    if (!mayAskFor(client.scopes, requested)) throw new TokenRefusal(tokenErrors.unregisteredScope);
    const { deviceCode, userCode } = await start(sql, userCodeKeys, { client: client.id, scope, now });
    const verificationUri = `${authUrl}/device`;
    return jsonAnswer(200, {
      device_code: deviceCode,
      user_code: userCode,
      verification_uri: verificationUri,
      verification_uri_complete: `${verificationUri}?${new URLSearchParams({ user_code: userCode }).toString()}`,
      expires_in: LIFETIME_SECONDS,
      interval: POLL_SECONDS,
    });
  });
}

const MALFORMED = 'The code has eight letters, such as WDJB-MJHT. Enter the code that your device shows.';
const UNKNOWN =
  'This code is wrong, was used already or has expired. Compare it with your device, or start again there.';
const SUSPENDED = `${refusals.suspendedClient.description}. Nothing was shared with it.`;
const ADVICE = html`<p>Wait, then enter the code that your device shows.</p>`;

function entryPage(root: string, { typed, alert }: { typed: string; alert?: string }): string {
  return cardPage(
    'Connect a device',
    html`${alert !== undefined && html`<p class="alert" role="alert">${alert}</p>`}
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
      </form>`,
  );
}

const ALLOWED = html`<p>The app has access now. Return to your device. You can close this page.</p>`;
const DENIED = html`<p>Nothing was shared with the app. You can close this page.</p>`;

/** Returns the request behind the code, or the response to a wrong one. Wrong codes are counted per address and person. */
async function readRequest(
  { runtime: { sql }, people: { throttle }, root }: Consenting,
  userCodeKeys: Keys,
  session: Session,
  rawRequest: RawRequest,
): Promise<ConsentRequest | RawResponse> {
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
  if (client.suspendedReason !== null) return htmlAnswer(403, entryPage(root, { typed, alert: SUSPENDED }));
  const device = { hash: found.hash, expires: found.expires, userCode: shownUserCode(userCode) };
  return { client, scope, redirectUri: null, codeChallenge: null, device };
}

async function prepare(
  consenting: Consenting,
  userCodeKeys: Keys,
  rawRequest: RawRequest,
): Promise<Consent | RawResponse> {
  const session = await decidingSession(consenting, 'device', rawRequest);
  if ('status' in session) return session;
  const request = await readRequest(consenting, userCodeKeys, session, rawRequest);
  if ('status' in request) return request;
  const { client, scope, device } = request;
  return openConsent(consenting, {
    request,
    session,
    flow: {
      page: 'device',
      formTargets: [],
      bound: ['device', device?.hash.toString('hex'), client.id, scopeNames(scope).join(' '), scope.storeId ?? null],
      allowed: () => htmlAnswer(200, cardPage('Device connected', ALLOWED)),
      denied: () => htmlAnswer(200, cardPage('Access denied', DENIED)),
    },
  });
}

/**
 * GET and POST /device (RFC 8628 §3.3): a signed-in person enters the code of a device, and decides on the consent page. GET changes
 * nothing. The address with the code (`verification_uri_complete`) leads to the same page, which shows the code for comparison.
 */
export function createDevicePage(consenting: Consenting, userCodeKeys: Keys): { show: RawHandler; decide: RawHandler } {
  return createConsentPage(consenting, (request) => prepare(consenting, userCodeKeys, request));
}
