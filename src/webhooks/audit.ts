/**
 * What the changelog says of a webhook: its settings as the API shows them, and in place of what would let anybody in a
 * word. Such are the key, the values of extra headers, and of the url all but its origin: hooks of chats and of automation
 * services have the credential in the path, others have a token in the query. All who reach the store read the path on the
 * webhook itself while it has it, but an entry is sent to every watcher and outlives it.
 */
import { actionOf, actorOf, HALCYON, type Actor, type Changelog, type Facts } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Value } from '#hypermedia/document.ts';
import type { ApiRequest } from '#http/operation.ts';
import type { WEBHOOK_PROPERTIES } from './document.ts';
import type { WebhookRow } from './webhook-sql.ts';
import type { Settings } from './webhook.ts';

/** As it is stored: a key that stayed is the same bytes, since sealing it anew makes others. */
type Stored = Settings &
  Pick<
    WebhookRow,
    'id' | 'storeId' | 'encryptionKey' | 'nextEncryptionKey' | 'rotationEndsAt' | 'timeZone' | 'inactiveReason'
  >;

/** Not compared is what follows from any change, or never changes. A new property of a webhook is a fault of types here. */
type Told = Exclude<keyof typeof WEBHOOK_PROPERTIES, 'id' | 'state' | 'reason' | 'date_created' | 'date_modified'>;

type Secret = string | null | undefined;

/** In place of a secret. */
const wordOf = (secret: Secret, before: Secret): string | null => {
  if (secret == null) return before == null ? null : 'removed';
  return before == null || before === secret ? 'set' : 'replaced';
};

/** The path with the query; a slash alone says nothing. User-info and fragments are in no url of a webhook. */
const splitUrl = (url: string): [origin: string, rest: string | null] => {
  const [origin = ''] = /^https?:\/\/[^/?]*/i.exec(url) ?? [];
  const rest = url.slice(origin.length);
  return rest === '' || rest === '/' ? [url, null] : [origin, rest];
};

/** `https://example.com/(set)` */
const urlFact = (url: string | null, before: string | null): string | null => {
  if (url === null) return null;
  const [origin, rest] = splitUrl(url);
  return rest === null ? origin : `${origin}/(${wordOf(rest, splitUrl(before ?? '')[1])})`;
};

/** Returns the value; the empty text in place of one that was not opened, because no change of it is recorded. */
const valueIn = (headers: Settings['headers'], name: string): Secret =>
  Object.hasOwn(headers, name) ? (headers[name] ?? '') : null;

/** In the order of their names, as events are below: the order in which they were sent is no difference. */
const headerFacts = (headers: Settings['headers'], before: Settings['headers']): Facts =>
  Object.fromEntries(
    Object.keys(headers)
      .toSorted()
      .map((name) => [name, wordOf(valueIn(headers, name), valueIn(before, name))]),
  );

const hexOf = (key: Buffer | null): string | undefined => key?.toString('hex');

/** The settings, with words that tell what became of secrets since `before`. */
const factsOf = (webhook: Stored, before: Stored): Facts =>
  ({
    name: webhook.name,
    format: webhook.format,
    version: webhook.version,
    url: urlFact(webhook.url, before.url),
    query: webhook.query,
    encryption_key: wordOf(hexOf(webhook.encryptionKey), hexOf(before.encryptionKey)),
    next_encryption_key: wordOf(hexOf(webhook.nextEncryptionKey), hexOf(before.nextEncryptionKey)),
    rotation_ends: webhook.rotationEndsAt && formatDate(webhook.rotationEndsAt, webhook.timeZone),
    event_resource: webhook.eventResource,
    events: webhook.events.toSorted(),
    is_active: webhook.isActive ? '1' : '0',
    inactive_reason: webhook.inactiveReason,
    is_held: webhook.isHeld ? '1' : '0',
    headers: headerFacts(webhook.headers, before.headers),
    rate_per_second: webhook.ratePerSecond,
    retry_profile: webhook.retryProfile,
  }) satisfies Record<Told, Value>;

type Step = { before: Stored | null; after: Stored | null };

const write = async (
  tx: Queryable,
  changelog: Changelog,
  { before, after }: Step,
  by: { actor: Actor; now: Date; action?: 'deactivated' },
): Promise<void> => {
  const webhook = after ?? before;
  if (webhook === null) return;
  const facts = { before: before && factsOf(before, before), after: after && factsOf(after, before ?? after) };
  const { id: resourceId, storeId } = webhook;
  const { actor, action = actionOf(facts) } = by;
  await changelog.record(tx, [{ storeId, actor, resource: 'webhook', resourceId, action, ...facts }], by.now);
};

/** Called with what was stored before the change and what is after it; null where there is nothing. */
export const recordWebhook = (
  tx: Queryable,
  changelog: Changelog,
  step: Step,
  { principal, now }: Pick<ApiRequest, 'principal' | 'now'>,
): Promise<void> => write(tx, changelog, step, { actor: actorOf(principal), now });

/** Nobody listens to it any more: Halcyon deleted it by itself. */
export const recordForsaken = (tx: Queryable, changelog: Changelog, before: Stored, now: Date): Promise<void> =>
  write(tx, changelog, { before, after: null }, { actor: HALCYON, now });

/** What nobody asked for: Halcyon switched the webhook off by itself. */
export const recordSwitchOff = (
  tx: Queryable,
  changelog: Changelog,
  step: { before: Stored; after: Stored },
  now: Date,
): Promise<void> => write(tx, changelog, step, { actor: HALCYON, now, action: 'deactivated' });
