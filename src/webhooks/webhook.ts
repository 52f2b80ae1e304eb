/** The settings of a webhook: validation beyond the schema, the keys during a rotation, and the entries of changes in the changelog. */
import { payloadFilterFaults } from '#catalog/payload-filter.ts';
import { shapeFaults } from '#catalog/resource-document.ts';
import { isReadable } from '#core/loopback.ts';
import { type Rotating, signingKeyOf, singleKey } from '#core/keys.ts';
import { isBlank } from '#core/text.ts';
import { isHeaderValue, isHeaderName, isReservedHeader } from '#core/header.ts';
import { invalidValue, conflict, requiredMember, type Fault, invalid } from '#core/problem.ts';
import type { Headers } from '#core/request-secrets.ts';
import { type Draft, type Settings, type Subscription, type WebhookInput, webhookFields } from './webhook-fields.ts';
import { allEvents, eventsOf, OPERATOR_EVENT, resourceOfEvent, type ResourceType } from '#catalog/catalog.ts';
import { actionOf, actorOf, HALCYON, type Changelog, type Facts } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import { factsOf } from '#http/field-table.ts';
import type { Principal } from '#core/principal.ts';
import type { WebhookRow } from './webhook-sql.ts';

const unknownEvent = (event: string): Fault => ({
  code: 'unknown_event',
  message: `Unknown event "${event}"; possible: ${allEvents().join(', ')}`,
  field: 'events',
});

/**
 * Returns the subscription after a request. A resource alone means every event of it, events alone must be of one resource, both
 * must agree, and neither leaves `current` unchanged. An empty list counts as absent: a client may send it back with a new
 * resource.
 */
export function resolveSubscription(
  input: { eventResource?: ResourceType | null; events?: readonly string[] },
  current: Subscription,
): Subscription & { faults: Fault[] } {
  if (input.eventResource === undefined && input.events === undefined) {
    return { eventResource: current.eventResource, events: current.events, faults: [] };
  }
  const events = [...new Set(input.events)];
  if (events.length === 0) {
    const eventResource = input.eventResource ?? null;
    return { eventResource, events: eventResource === null ? [] : eventsOf(eventResource), faults: [] };
  }
  const stated = input.eventResource ?? null;
  const eventResource = stated ?? events.map(resourceOfEvent).find((type) => type !== undefined) ?? null;
  const faults = events.flatMap((event): Fault[] => {
    const type = resourceOfEvent(event);
    if (type === undefined) return [unknownEvent(event)];
    if (type === eventResource) return [];
    const reason = stated === null ? `is not of the same resource as the others` : `is not an event of ${stated}`;
    return [invalidValue('events', `events: "${event}" ${reason}`)];
  });
  return { eventResource, events, faults };
}

const HEADER_NAME_LENGTH_MAX = 100;

/**
 * Returns a fault for each additional header that cannot be sent: it must not break or forge the headers of a delivery. `prefix`:
 * that of the operator's own headers, such as `Service`.
 */
export function headerFaults(headers: Headers, prefix: string): Fault[] {
  const seen = new Set<string>();
  return Object.entries(headers).flatMap(([name, value]): Fault[] => {
    const field = `headers.${name}`;
    const refuse = (reason: string): Fault[] => [invalidValue(field, `${field} ${reason}`)];
    if (!isHeaderName(name) || name.length > HEADER_NAME_LENGTH_MAX) {
      return refuse(`is not a valid header name (at most ${HEADER_NAME_LENGTH_MAX} letters, digits and hyphens)`);
    }
    if (isReservedHeader(name, prefix)) return refuse('is reserved');
    const lower = name.toLowerCase();
    if (seen.has(lower)) return refuse('is a duplicate');
    seen.add(lower);
    return value === null || isHeaderValue(value) ? [] : refuse('must be printable ASCII');
  });
}

export type MergeContext = {
  /**
   * The key that the webhook has after the change, during a rotation an Ed25519 key if one of both is; null without one, and undefined if it
   * cannot be decrypted.
   */
  key: string | null | undefined;
  /** Why the outbound guard forbids the host of the requested url; null if it is allowed. */
  forbidden: string | null;
  headerPrefix: string;
  /** Whether an app creates or has created the webhook for a user. */
  isOfApp: boolean;
  /** Whether the webhook belongs to the platform store. */
  isOfPlatformStore: boolean;
};

/** Rejects a blank name. The schema rejects an empty one. */
const nameFaults = (name: string | undefined): Fault[] =>
  name !== undefined && name !== '' && isBlank(name) ? [invalidValue('name', 'name must not be blank')] : [];

function addressFaults(draft: Draft, input: WebhookInput, forbidden: string | null): Fault[] {
  if (draft.url === null) return [];
  const reason = input.url ? addressFault(input.url) : undefined;
  if (reason !== undefined) return [invalidValue('url', `url ${reason}`)];
  if (forbidden !== null) return [{ code: 'forbidden_address', message: `url: ${forbidden}`, field: 'url' }];
  if (draft.format !== 'partner_sitebuilder' || /^https:/i.test(draft.url)) return [];
  // This format sends the key in a header.
  const message = 'url must be https when format is partner_sitebuilder';
  return [invalidValue('url', message)];
}

/** Rejects keys that a header cannot carry: in this format the key is the platform's token, sent as a header. */
function tokenFaults(format: Draft['format'], key: string | null | undefined): Fault[] {
  if (format !== 'partner_sitebuilder' || isHeaderValue(key ?? '')) return [];
  const message = 'encryption_key must be printable ASCII when format is partner_sitebuilder';
  return [invalidValue('encryption_key', message)];
}

const wrongKey = (message: string): Fault[] => [invalidValue('encryption_key', message)];

/** Rejects what looks like an Ed25519 key and is none, and one for bodies that are encrypted, for which both sides need one secret. */
export function signingKeyFaults({ format, url }: Pick<Draft, 'format' | 'url'>, key: string | null): Fault[] {
  if (key === null || format === 'partner_sitebuilder') return [];
  // A quoted or capitalised key would be the secret of an HMAC, and everyone knows a public one.
  const [, kind] = /^["'\s]*wh([ps])k_/i.exec(key) ?? [];
  if (kind === undefined) return [];
  if (kind.toLowerCase() === 'p') return wrongKey('encryption_key must not be a public key (whpk_): it signs nothing');
  if (signingKeyOf(key) === undefined)
    return wrongKey(
      'encryption_key that begins with whsk_ must continue with the base64 of an Ed25519 private key, 32 or 64 bytes',
    );
  const isEncryptedWithIt =
    format === 'json' && url !== null && addressFault(url) === undefined && isReadable(new URL(url));
  return isEncryptedWithIt
    ? wrongKey(
        'encryption_key must not be an Ed25519 key when format is json and url is http: the body is encrypted with it',
      )
    : [];
}

/** A pull webhook sends no requests, so it has neither a url nor a format that sends a bearer token (RFC 6750 §5.3). */
function pullFaults({ isHeld, url, format }: Draft): Fault[] {
  if (!isHeld) return [];
  const faults: Fault[] = [];
  const fail = (field: string, message: string) => void faults.push(invalidValue(field, message));
  if (url !== null) fail('url', 'url must be omitted when is_held is 1: a listener fetches the deliveries');
  if (format === 'partner_sitebuilder') fail('format', 'format must not be partner_sitebuilder when is_held is 1');
  return faults;
}

/** Returns why the webhook must not get these events: an app is sent its own alone, by the webhook that it declares. */
function refusedFaults(eventResource: ResourceType | null, isNew: boolean, context: MergeContext): Fault[] {
  const { isOfApp, isOfPlatformStore } = context;
  const refuse = (why: string): Fault[] => [
    invalidValue('event_resource', `event_resource must not be ${eventResource}: ${why}`),
  ];
  if (isOfApp && eventResource === 'app')
    return refuse('an app receives its events at the webhook_url of the client, which is declared once for all stores');
  if (eventResource !== OPERATOR_EVENT) return [];
  if (isOfApp) return refuse('an app does not receive the events for the operator');
  if (isOfPlatformStore || !isNew) return [];
  return refuse(
    'only webhooks of the platform store, which the operator names (PLATFORM_STORE), are sent these events',
  );
}

const KEY_REQUIRED = requiredMember('encryption_key', ' when format is json');

/** Merges the input into the current settings and returns the result with every fault that the schema cannot detect. */
export function mergeInput<From extends Draft>(
  current: From,
  input: WebhookInput,
  context: MergeContext,
): { settings: From & WebhookInput; faults: Fault[] } {
  const { key, forbidden, headerPrefix } = context;
  const { encryptionKey: _, ...changes } = input;
  const { faults: subscriptionFaults, ...subscription } = resolveSubscription(input, current);
  const settings = { ...current, ...changes, ...subscription };
  // The resource determines which relations exist, so the query is validated only if the resource is valid.
  const isShapeChanged = settings.query !== current.query || settings.eventResource !== current.eventResource;
  const faults = [
    ...nameFaults(input.name),
    ...addressFaults(settings, input, forbidden),
    ...pullFaults(settings),
    ...(isShapeChanged && subscriptionFaults.length === 0
      ? shapeFaults(settings.query ?? '', settings.eventResource)
      : []),
    ...(settings.filter === null || settings.filter === current.filter ? [] : payloadFilterFaults(settings.filter)),
    ...(settings.format === 'json' && key === null ? [KEY_REQUIRED] : []),
    ...tokenFaults(settings.format, input.encryptionKey),
    ...signingKeyFaults(settings, key ?? null),
    ...subscriptionFaults,
    ...refusedFaults(settings.eventResource, settings.eventResource !== current.eventResource, context),
    ...headerFaults(input.headers ?? {}, headerPrefix),
  ];
  return { settings, faults };
}

/** Returns whether the change ends pending deliveries: the webhook is disabled or loses its url. */
export function stopsDeliveries(before: Settings, after: Settings): boolean {
  return (before.isActive && !after.isActive) || (before.url !== null && after.url === null);
}

/**
 * Sealed keys, as stored. During a rotation a new key is valid beside the current one:
 *
 * ```
 *   one key ──rotate──► current and next key ──overlap ended, or finished──► only the next key
 *                        │ key set or cleared: only that one
 *                        └ format changed: only the next key
 * ```
 *
 * The current key is removed whenever a rotation ends.
 */
export type Keys = Rotating<Buffer>;

/** Returns the keys after a change of settings. `newKey` is the stored key if the change keeps it. */
export function keysAfterUpdate(
  stored: Keys & Pick<Settings, 'format'>,
  { format }: Pick<Settings, 'format'>,
  newKey: Buffer | null,
): Keys {
  if (newKey !== stored.encryptionKey) return singleKey(newKey);
  const { nextEncryptionKey, rotationEndsAt } = stored;
  if (nextEncryptionKey === null) return singleKey(newKey);
  // Another format uses the key differently, so the overlap makes no sense there.
  return format === stored.format
    ? { encryptionKey: newKey, nextEncryptionKey, rotationEndsAt }
    : singleKey(nextEncryptionKey);
}

/** Returns the next key as the only one. Throws a 409 if no rotation is active. */
export function finishRotation({ nextEncryptionKey }: Keys): Keys {
  if (nextEncryptionKey !== null) return singleKey(nextEncryptionKey);
  throw conflict('no_rotation', 'No rotation is active');
}

const SAME_KEY: Fault = invalidValue('encryption_key', 'encryption_key is the current key: choose another');

const PLATFORM_TOKEN_REQUIRED = requiredMember(
  'encryption_key',
  ' when format is partner_sitebuilder: it is the API token of that platform',
);

/**
 * `key`: the requested key, null to generate one. `present`: the current key, null if there is none or it cannot be decrypted.
 */
export type RequestedKey = { key: string | null; present: string | null };

/** Throws if no rotation can begin: a 409 because of the stored keys, a 400 because of the requested key. */
export function checkCanRotate(stored: Keys & Pick<Settings, 'format'>, { key, present }: RequestedKey): void {
  // A key that cannot be decrypted cannot sign during the overlap either.
  if (present === null) throw conflict('no_key', 'The webhook has no encryption_key to rotate: set one by PATCH');
  if (stored.nextEncryptionKey !== null) {
    throw conflict('rotation_under_way', 'A rotation is active: send {"finish":true} to end it, then rotate again');
  }
  if (key === null && stored.format === 'partner_sitebuilder') throw invalid(PLATFORM_TOKEN_REQUIRED);
  if (key === present) throw invalid(SAME_KEY);
}

// Syntax check of a webhook's url. The outbound guard checks the addresses of its host.

/** Returns why the text is not a valid url of a webhook; undefined if it is valid. */
export function addressFault(url: string): string | undefined {
  // The URL parser removes or reinterprets these characters, so the request would go to another address than the one written.
  if (/[\s\p{Cc}\\]/u.test(url)) return 'must not contain blanks, control characters or backslashes';
  if (!/^https?:\/\/[^/]/i.test(url) || !URL.canParse(url)) return 'must be an absolute http or https address';
  const { username, password, port } = new URL(url);
  // Nothing listens on it, and clients read it as no port.
  if (port === '0') return 'must not have port 0';
  // The parsed URL does not show an empty user-info, so the text is checked as well.
  if (username !== '' || password !== '' || /^https?:\/\/[^/?#]*@/i.test(url)) return 'must not contain user-info';
  if (url.includes('#')) return 'must not contain a fragment';
  return undefined;
}

// Changelog entries of webhooks: the settings as the API shows them, with `set`, `replaced` or `removed` in place of secrets.
// The key, header values, and the path and query of the url, which often contain credentials, are secret: members of the store can
// read the path on the webhook, but an entry is sent to every subscriber and outlives the webhook.

/** The stored row: an unchanged key has the same bytes, because sealing it again would change them. */
type Stored = Settings &
  Pick<
    WebhookRow,
    'id' | 'storeId' | 'encryptionKey' | 'nextEncryptionKey' | 'rotationEndsAt' | 'timeZone' | 'inactiveReason'
  >;

type Secret = string | null | undefined;

/** Returns the word that replaces a secret in the entry. */
function secretStatus(secret: Secret, before: Secret): string | null {
  if (secret == null) return before == null ? null : 'removed';
  return before == null || before === secret ? 'set' : 'replaced';
}

/** Splits a url into its origin and the rest; a lone slash counts as none. Urls of webhooks have no user-info or fragment. */
function splitUrl(url: string): [origin: string, rest: string | null] {
  const [origin = ''] = /^https?:\/\/[^/?]*/i.exec(url) ?? [];
  const rest = url.slice(origin.length);
  return rest === '' || rest === '/' ? [url, null] : [origin, rest];
}

/** Returns the origin and the status of the rest, such as `https://example.com/(set)`. */
function auditedUrl(url: string | null, before: string | null): string | null {
  if (url === null) return null;
  const [origin, rest] = splitUrl(url);
  return rest === null ? origin : `${origin}/(${secretStatus(rest, splitUrl(before ?? '')[1])})`;
}

/** Returns the value; an empty string if it was not decrypted, so that no change is recorded. */
const valueIn = (headers: Settings['headers'], name: string): Secret =>
  Object.hasOwn(headers, name) ? (headers[name] ?? '') : null;

/** Returns the headers sorted by name, like the events below, because their order is not a change. */
const auditedHeaders = (headers: Settings['headers'], before: Settings['headers']): Facts =>
  Object.fromEntries(
    Object.keys(headers)
      .toSorted()
      .map((name) => [name, secretStatus(valueIn(headers, name), valueIn(before, name))]),
  );

const hexOf = (key: Buffer | null): string | undefined => key?.toString('hex');

const factsOfWebhook = factsOf(webhookFields);

/** Returns the settings, with the status of each secret compared with `before`. */
const auditedSettings = (webhook: Stored, before: Stored): Facts =>
  factsOfWebhook(webhook, webhook.timeZone, {
    url: auditedUrl(webhook.url, before.url),
    encryption_key: secretStatus(hexOf(webhook.encryptionKey), hexOf(before.encryptionKey)),
    next_encryption_key: secretStatus(hexOf(webhook.nextEncryptionKey), hexOf(before.nextEncryptionKey)),
    events: webhook.events.toSorted(),
    headers: auditedHeaders(webhook.headers, before.headers),
  });

type Change = { before: Stored | null; after: Stored | null };

/**
 * Writes the entry of a change; `before` is null for a new webhook, `after` for a deleted one. Without a principal Halcyon made it, and
 * disabled the webhook if the action is `deactivated`.
 */
export async function recordWebhook(
  tx: Queryable,
  changelog: Changelog,
  { before, after }: Change,
  by: { principal: Principal | null; now: Date; action?: 'deactivated' },
): Promise<void> {
  const webhook = after ?? before;
  if (webhook === null) return;
  const facts = {
    before: before && auditedSettings(before, before),
    after: after && auditedSettings(after, before ?? after),
  };
  const { id: resourceId, storeId } = webhook;
  const { principal, action = actionOf(facts) } = by;
  const actor = principal === null ? HALCYON : actorOf(principal);
  await changelog.record(tx, [{ storeId, actor, resource: 'webhook', resourceId, action, ...facts }], by.now);
}
