/**
 * Changelog entries of webhooks: the settings as the API shows them, with `set`, `replaced` or `removed` in place of secrets.
 * Secret are the key, header values, and the path and query of the url, which often contain credentials: members of the store can
 * read the path on the webhook, but an entry is sent to every subscriber and outlives the webhook.
 */
import { actionOf, actorOf, HALCYON, type Actor, type Changelog, type Facts } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import { factsOf } from '#http/field-table.ts';
import type { ApiRequest } from '#http/operation.ts';
import { webhookFields, type Settings } from './webhook-fields.ts';
import type { WebhookRow } from './webhook-sql.ts';

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

async function record(
  tx: Queryable,
  changelog: Changelog,
  { before, after }: Change,
  by: { actor: Actor; now: Date; action?: 'deactivated' },
): Promise<void> {
  const webhook = after ?? before;
  if (webhook === null) return;
  const facts = {
    before: before && auditedSettings(before, before),
    after: after && auditedSettings(after, before ?? after),
  };
  const { id: resourceId, storeId } = webhook;
  const { actor, action = actionOf(facts) } = by;
  await changelog.record(tx, [{ storeId, actor, resource: 'webhook', resourceId, action, ...facts }], by.now);
}

/** Writes the entry of a change; `before` is null for a new webhook, `after` for a deleted one. */
export function recordWebhook(
  tx: Queryable,
  changelog: Changelog,
  change: Change,
  { principal, now }: Pick<ApiRequest, 'principal' | 'now'>,
): Promise<void> {
  return record(tx, changelog, change, { actor: actorOf(principal), now });
}

/** Writes the entry of an unattended pull webhook that Halcyon deleted. */
export function recordUnattended(tx: Queryable, changelog: Changelog, before: Stored, now: Date): Promise<void> {
  return record(tx, changelog, { before, after: null }, { actor: HALCYON, now });
}

/** Writes the entry of a webhook that Halcyon disabled. */
export function recordAutoDisable(
  tx: Queryable,
  changelog: Changelog,
  change: { before: Stored; after: Stored },
  now: Date,
): Promise<void> {
  return record(tx, changelog, change, { actor: HALCYON, now, action: 'deactivated' });
}
