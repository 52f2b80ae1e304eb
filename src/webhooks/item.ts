/** One webhook: read, change in part, replace, delete. */
import { transaction } from '#db/pool.ts';
import { accepting, guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { readFieldsOf } from '#hypermedia/listing.ts';
import { withFields } from '#hypermedia/page.ts';
import { invalid, notFound, type Fault } from '#core/problem.ts';
import { addressOfWebhooks, versionOf, WEBHOOK_PROPERTIES } from './document.ts';
import { holdAccessOf, userAfter } from './app-access/app-access.ts';
import {
  judge,
  keyOf,
  opened,
  openedWebhook,
  sealedRequest,
  sealedTo,
  seesKey,
  show,
  webhookOf,
  type WebhookDeps,
} from './access.ts';
import { adviceOfWebhook } from './health/advice.ts';
import { chartsOfWebhook } from './health/operations.ts';
import { isSameRequest, NEEDS_KEY, redirectFaults, revealsKey, valueFaults, withKept } from './kept.ts';
import { deleteWebhook, findWebhook, lockWebhook, updateWebhook, type WebhookRow } from './webhook-sql.ts';
import { recordWebhook } from './audit.ts';
import { keysAfter, settled } from './rotation/rotation.ts';
import type { Schemas, WebhookPart } from './schema.ts';
import { decide, defaults, readWish, stopsDeliveries, type Draft, type Settings, type Wish } from './webhook.ts';

type Change = 'part' | 'whole';
type Asked = ApiRequest<WebhookPart>;

const settingsOf = ({ name, format, version, url, query, eventResource, events, ...row }: WebhookRow): Settings => {
  const { isActive, isHeld, headers, ratePerSecond, retryProfile } = row;
  const plain = { name, format, version, url, query, eventResource, events };
  return { ...plain, isActive, isHeld, headers, ratePerSecond, retryProfile };
};

/**
 * Whether the stored key stays. A change of a part keeps what it does not name; and who cannot see the key reads null in
 * its place, so a null that comes back from them says nothing.
 */
const keepsKey = (change: Change, wish: Wish, body: WebhookPart, sees: boolean): boolean =>
  wish.encryptionKey === undefined ? change === 'part' : body.encryption_key === null && !sees;

/** The key that is asked for, sealed. One that is there already stays as it is: to send it again changes nothing. */
const sealedKey = (deps: WebhookDeps, stored: WebhookRow, { encryptionKey: wanted = null }: Wish): Buffer | null => {
  if (wanted === null) return null;
  return opened(deps, stored) === wanted ? stored.encryptionKey : deps.sealer.seal(wanted, sealedTo(stored.id));
};

const isHeldForGood: Fault = {
  code: 'invalid_value',
  message: 'is_held is chosen when a webhook is made and stays: make another webhook instead',
  field: 'is_held',
};

/** What the request makes of a stored webhook, whose url and headers are opened, and everything that is wrong with it beyond its schema. */
const weigh = (deps: WebhookDeps, request: Asked, change: Change, stored: WebhookRow, forbidden: string | null) => {
  const { body, principal } = request;
  const sent = readWish(body);
  const sees = seesKey(principal, stored);
  const present = { stored, isShown: sees };
  const wish = withKept(sent, present);
  const keeps = keepsKey(change, wish, body, sees);
  const hasKey = keeps ? stored.encryptionKey !== null : typeof wish.encryptionKey === 'string';
  const { isHeld } = stored;
  const draft: Draft = change === 'part' ? settingsOf(stored) : { ...defaults, isHeld };
  // What is wrong with the rest is said of the webhook as it is.
  const weighed = decide(draft, { ...wish, isHeld }, { hasKey, forbidden, headerPrefix: deps.headerPrefix });
  const changesHolding = (wish.isHeld ?? isHeld) !== isHeld;
  // A url that is wrong has no origin, and is refused in any case.
  const isSound = weighed.faults.length === 0;
  const reveals = !sees && keeps && hasKey && isSound && revealsKey(stored, weighed.settings);
  const faults = [
    ...(changesHolding ? [isHeldForGood] : []),
    ...(reveals ? [NEEDS_KEY] : []),
    ...(isSound ? redirectFaults(sent, weighed.settings, present) : []),
    ...valueFaults(weighed.settings, stored),
    ...weighed.faults,
  ];
  return { wish, keeps, ...weighed, faults };
};

/** Stays as it is where nothing of it changes, also where it cannot be opened any more. */
const rowRequestOf = ({ url, headers, requestSecrets }: WebhookRow) => ({ url, headers, requestSecrets });

/** The change as one transaction over the locked row, so that concurrent changes follow each other and none is lost. */
const change = async (deps: WebhookDeps, request: Asked, kind: Change): Promise<WebhookRow> => {
  const { sql, changelog, announce, onChanged } = deps;
  const key = keyOf(request);
  // Names are resolved for those only who may write here, and before the row is locked: a resolver may take seconds.
  const found = await webhookOf(sql, request);
  const forbidden = await judge(deps, request.body.url);
  const changed = await transaction(sql, async (tx) => {
    // Before the webhook is locked, because the end of a grant locks the grant first.
    const isWanted = readWish(request.body).isActive ?? kind === 'whole';
    const access = isWanted ? await holdAccessOf(tx, found) : undefined;
    const row = await lockWebhook(tx, key);
    if (row === undefined) throw notFound('webhook');
    const stored = openedWebhook(deps, settled(row, request.now));
    request.unmodified(versionOf(stored));
    const { wish, keeps, settings: draft, faults } = weigh(deps, request, kind, stored, forbidden);
    if (faults.length > 0) throw invalid(...faults);
    const settings: Settings = { ...draft, name: draft.name ?? stored.name, format: draft.format ?? stored.format };
    await updateWebhook(tx, {
      ...settings,
      ...(isSameRequest(settings, stored) ? rowRequestOf(row) : sealedRequest(deps, key.id, settings)),
      ...key,
      storeId: stored.storeId,
      ...keysAfter(stored, settings, keeps ? stored.encryptionKey : sealedKey(deps, stored, wish)),
      user: userAfter(stored, settings, access),
      inactiveReason: stored.inactiveReason,
      stopsDeliveries: stopsDeliveries(stored, settings),
      now: request.now,
    });
    const after = await findWebhook(tx, key);
    if (after === undefined) throw new Error(`Webhook ${key.id} is not there after its update`);
    await recordWebhook(tx, changelog, { before: stored, after: openedWebhook(deps, after) }, request);
    await announce(tx, key.shard, [key.id]);
    return after;
  });
  onChanged({ shard: key.shard, id: key.id });
  return changed;
};

/** The faults beyond the schema of a body that the schema has refused already; nothing is locked or written. */
const review = async (deps: WebhookDeps, request: Asked, kind: Change) => {
  const stored = openedWebhook(deps, await webhookOf(deps.sql, request));
  return weigh(deps, request, kind, stored, await judge(deps, request.body.url)).faults;
};

export const createItem = (
  deps: WebhookDeps,
  { part, whole }: Schemas,
): Record<'read' | 'patch' | 'replace' | 'remove', Operation> => ({
  read: guarded({
    summary: 'One webhook',
    modifiers: ['fields'],
    handle: async (request) => {
      const webhook = await webhookOf(deps.sql, request);
      return {
        status: 200,
        document: withFields(show(deps, webhook, request), readFieldsOf(request.query, WEBHOOK_PROPERTIES)),
        charts: async () => chartsOfWebhook(deps.sql, webhook, request.now),
        advice: async () => adviceOfWebhook(deps.sql, webhook, request.now),
      };
    },
  }),
  patch: accepting({
    summary: 'Changes the properties that are sent and leaves the others as they are',
    title: 'Change this webhook',
    isConditional: true,
    input: part,
    review: (request) => review(deps, request, 'part'),
    handle: async (request) => ({
      status: 200,
      document: show(deps, await change(deps, request, 'part'), request),
    }),
  }),
  replace: accepting({
    title: 'Replace this webhook',
    isConditional: true,
    summary: 'Replaces the webhook; optional properties that are not sent return to their defaults',
    input: whole,
    review: (request) => review(deps, request, 'whole'),
    handle: async (request) => ({
      status: 200,
      document: show(deps, await change(deps, request, 'whole'), request),
    }),
  }),
  remove: guarded({
    summary: 'Deletes the webhook; what is pending for it is not attempted any more',
    title: 'Delete this webhook',
    isConditional: true,
    handle: async (request) => {
      const key = keyOf(request);
      const { storeId } = await transaction(deps.sql, async (tx) => {
        const row = await lockWebhook(tx, key);
        if (row === undefined) throw notFound('webhook');
        const stored = openedWebhook(deps, settled(row, request.now));
        request.unmodified(versionOf(stored));
        await deleteWebhook(tx, key);
        await recordWebhook(tx, deps.changelog, { before: stored, after: null }, request);
        await deps.announce(tx, key.shard, [key.id]);
        return stored;
      });
      deps.onChanged({ shard: key.shard, id: key.id });
      return { status: 204, next: addressOfWebhooks(storeId, deps.baseUrl) };
    },
  }),
});
