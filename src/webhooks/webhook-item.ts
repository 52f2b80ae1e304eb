/** The operations of one webhook: read, PATCH, PUT, delete. */
import { HIDDEN_FROM_APPS } from '#catalog/catalog.ts';
import { isSigningKey, withCurrentKeys } from '#core/keys.ts';
import { isDeepStrictEqual } from 'node:util';
import { transaction, type Queryable } from '#db/pool.ts';
import type { Accounts } from '#shards/map.ts';
import { accepting, guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { readFieldsOf } from '#hypermedia/list-query.ts';
import { withFields } from '#hypermedia/paging.ts';
import { invalidValue, invalid, Problem, type Fault } from '#core/problem.ts';
import { addressOfWebhooks, versionOf } from './webhook-document.ts';
import {
  WEBHOOK_PROPERTIES,
  defaults,
  parseInput,
  settingsOfRow,
  type Draft,
  type Settings,
  type WebhookInput,
  type Schemas,
  type WebhookPart,
} from './webhook-fields.ts';
import { lockAccess } from './app-access/app-access-sql.ts';
import {
  CHANGE_SCOPES,
  READ_SCOPES,
  findForbiddenReason,
  keyOf,
  openKey,
  openWebhook,
  sealRequest,
  sealBinding,
  seesKey,
  documentFor,
  notifyOfNewKey,
  webhookOf,
  type WebhookDeps,
  isOfApp,
  isSameRequest,
  NEEDS_KEY,
  redirectFaults,
  requireChangeable,
  requireNotSuspended,
  requireStoreNotSuspended,
  revealsKey,
  valueFaults,
  withStoredSecrets,
  lockWebhookOf,
} from './webhook-access.ts';
import { requireConsent } from './handshake.ts';
import { adviceOfWebhook, statisticsOfWebhook } from './health/health-operations.ts';
import { retryOf } from './send-now.ts';
import { deleteWebhook, findWebhook, updateWebhook, type WebhookRow } from './webhook-sql.ts';
import { keysAfterUpdate, mergeInput, recordWebhook, stopsDeliveries } from './webhook.ts';

type Change = 'part' | 'whole';
type ChangeRequest = ApiRequest<WebhookPart>;

/**
 * Returns whether the stored key stays: a PATCH does not name it, or a reader who may not see the key sends back the null that is
 * shown in its place.
 */
const keepsKey = (kind: Change, input: WebhookInput, body: WebhookPart, isKeyVisible: boolean): boolean =>
  input.encryptionKey === undefined ? kind === 'part' : body.encryption_key === null && !isKeyVisible;

/** Returns the requested key, sealed; if it equals the stored key, the stored bytes, so that the update changes nothing. */
function sealedKey(
  deps: WebhookDeps,
  stored: WebhookRow,
  { encryptionKey: newKey = null }: WebhookInput,
): Buffer | null {
  if (newKey === null) return null;
  return openKey(deps, stored) === newKey ? stored.encryptionKey : deps.sealer.seal(newKey, sealBinding(stored.id));
}

/** Returns the key that a change keeps, as `MergeContext` has it. */
function keptKey(deps: WebhookDeps, stored: WebhookRow): string | null | undefined {
  if (stored.encryptionKey === null) return null;
  const next = openKey(deps, { ...stored, encryptionKey: stored.nextEncryptionKey });
  return next !== null && isSigningKey(next) ? next : (openKey(deps, stored) ?? undefined);
}

const IS_HELD_IS_FIXED: Fault = invalidValue('is_held', 'is_held is fixed at creation: create another webhook instead');

/** Returns a fault for another resource if not every app sees the deliveries, because that depends on the resource (`seesHistory`). */
function fixedFaults(before: string | null, after: string | null): Fault[] {
  if (!HIDDEN_FROM_APPS.includes(before ?? '') || after === before) return [];
  const message = `event_resource ${before} cannot be replaced, because only some apps may see its deliveries: create another webhook`;
  return [invalidValue('event_resource', message)];
}

/**
 * Returns the settings after the change and every fault that the schema cannot detect. `stored`: with url and headers decrypted.
 */
function validateChange(
  deps: WebhookDeps,
  request: ChangeRequest,
  kind: Change,
  stored: WebhookRow,
  forbidden: string | null,
) {
  const { body, principal } = request;
  const sent = parseInput(body);
  const isKeyVisible = seesKey(principal, stored);
  const current = { stored, isVisible: isKeyVisible };
  const input = withStoredSecrets(sent, current);
  const isKeyKept = keepsKey(kind, input, body, isKeyVisible);
  const key = isKeyKept ? keptKey(deps, stored) : (input.encryptionKey ?? null);
  const { isHeld } = stored;
  const draft: Draft = kind === 'part' ? settingsOfRow(stored) : { ...defaults, isHeld };
  // Validates the other settings with the unchanged is_held.
  // An app that changes the url of a webhook gets its events, also of one that a person created.
  const isAppInvolved = isOfApp(stored.client, stored.user) || isOfApp(principal.clientId, principal.userId);
  const context = {
    key,
    forbidden,
    headerPrefix: deps.config.naming.webhookHeaderPrefix,
    isOfApp: isAppInvolved,
    isOfPlatformStore: stored.storeId === deps.config.stores.platformStore,
  };
  const merged = mergeInput(draft, { ...input, isHeld }, context);
  const isHeldChanged = (input.isHeld ?? isHeld) !== isHeld;
  // An invalid url has no origin, and is rejected anyway.
  const isValid = merged.faults.length === 0;
  const reveals = !isKeyVisible && isKeyKept && key !== null && isValid && revealsKey(stored, merged.settings);
  const faults = [
    ...(isHeldChanged ? [IS_HELD_IS_FIXED] : []),
    ...fixedFaults(stored.eventResource, merged.settings.eventResource),
    ...(reveals ? [NEEDS_KEY] : []),
    ...(isValid ? redirectFaults(sent, merged.settings, current) : []),
    ...valueFaults(merged.settings, stored),
    ...merged.faults,
  ];
  return { input, isKeyKept, ...merged, faults };
}

/** Returns the sealed columns of the request, to keep them if nothing changes, even if they cannot be decrypted. */
const storedColumns = ({ url, headers, requestSecrets }: WebhookRow) => ({ url, headers, requestSecrets });

/**
 * Requires the consent of the endpoint if the change sets another url: before the transaction, because the endpoint may take
 * seconds. A change that is rejected anyway sends no request.
 */
async function requireConsentToChange(
  deps: WebhookDeps,
  request: ChangeRequest,
  kind: Change,
  unlocked: WebhookRow,
  forbidden: string | null,
): Promise<void> {
  if (deps.handshake === undefined || !request.body.url) return;
  const stored = openWebhook(deps, withCurrentKeys(unlocked, request.now));
  const { settings, faults } = validateChange(deps, request, kind, stored, forbidden);
  if (settings.url === stored.url) return;
  request.unmodified(versionOf(stored));
  if (faults.length > 0) throw invalid(...faults);
  await requireConsent(deps, settings.url, stored.storeId);
}

const ENDED =
  'The app that created this webhook no longer has access to the store: connect the app again, then enable the webhook';

type AppWebhook = Pick<WebhookRow, 'client' | 'user' | 'storeId' | 'isHeld'>;
type LockedAccess = { userId: number | null } | undefined;

/**
 * Returns the user through whom the app of a webhook has access to its store, and locks that access until the transaction ends.
 */
async function lockAccessOf(
  tx: Queryable,
  accounts: Accounts,
  { client, user: userId, storeId, isHeld }: AppWebhook,
): Promise<LockedAccess> {
  if (client === null) return undefined;
  return lockAccess(await accounts.locked(tx), { client, userId, storeId }, { isSameUserOnly: isHeld });
}

/**
 * Returns the user of a webhook after a change: enabling an app's webhook assigns it to the user who granted the access. Throws a
 * 409 if the app has no access.
 */
function userAfter(
  stored: Pick<WebhookRow, 'client' | 'user' | 'isActive'>,
  after: { isActive: boolean },
  access: LockedAccess,
): number | null {
  if (stored.client === null || stored.isActive || !after.isActive) return stored.user;
  if (access === undefined) throw new Problem(409, { code: 'access_ended', message: ENDED });
  return access.userId;
}

/**
 * Changes the webhook in one transaction that locks its row, so that concurrent changes are serialized. If nothing differs, nothing is
 * written: version and date stay.
 */
async function change(deps: WebhookDeps, request: ChangeRequest, kind: Change): Promise<WebhookRow> {
  const { sql, changelog, announce } = deps;
  const key = keyOf(request);
  // The host is resolved after authorization, and before the row is locked: a resolver may take seconds.
  const unlocked = await webhookOf(sql, request);
  requireChangeable(unlocked);
  const forbidden = await findForbiddenReason(deps, request.body.url);
  await requireConsentToChange(deps, request, kind, unlocked, forbidden);
  const { before, after: changed } = await transaction(sql, async (tx) => {
    // Locks the grant before the webhook: the end of a grant takes its locks in this order.
    const willBeActive = parseInput(request.body).isActive ?? kind === 'whole';
    const ofWebhook = willBeActive ? unlocked.client : null;
    await requireNotSuspended(tx, deps.accounts, { caller: request.principal.clientId, ofWebhook });
    if (willBeActive) await requireStoreNotSuspended(tx, { shard: key.shard, storeId: unlocked.storeId });
    const access = willBeActive ? await lockAccessOf(tx, deps.accounts, unlocked) : undefined;
    const row = await lockWebhookOf(tx, request);
    const stored = openWebhook(deps, withCurrentKeys(row, request.now));
    request.unmodified(versionOf(stored));
    const { input, isKeyKept, settings: draft, faults } = validateChange(deps, request, kind, stored, forbidden);
    if (faults.length > 0) throw invalid(...faults);
    const settings: Settings = { ...draft, name: draft.name ?? stored.name, format: draft.format ?? stored.format };
    const columns = {
      ...settings,
      ...(isSameRequest(settings, stored) ? storedColumns(row) : sealRequest(deps, key.id, settings)),
      ...keysAfterUpdate(stored, settings, isKeyKept ? stored.encryptionKey : sealedKey(deps, stored, input)),
      user: userAfter(stored, settings, access),
    };
    const present = { ...stored, ...storedColumns(row) };
    // A person who disables a suspended webhook keeps it disabled after the suspension.
    const isKeptDisabled = stored.inactiveReason === 'suspended' && input.isActive === false;
    if (!isKeptDisabled && isDeepStrictEqual(present, { ...present, ...columns })) return { before: row, after: row };
    await updateWebhook(tx, {
      ...columns,
      ...key,
      storeId: stored.storeId,
      inactiveReason: isKeptDisabled ? null : stored.inactiveReason,
      stopsDeliveries: stopsDeliveries(stored, settings),
      now: request.now,
    });
    const after = await findWebhook(tx, key);
    if (after === undefined) throw new Error(`Webhook ${key.id} not found after its update`);
    await recordWebhook(tx, changelog, { before: stored, after: openWebhook(deps, after) }, request);
    await announce(tx, key.shard, [key.id]);
    // What failed at the old url is attempted at the new one: workers are notified in this order, and read the url first.
    const isMoved = settings.url !== stored.url && settings.url !== null && settings.isActive;
    if (isMoved) await deps.retryNow(tx, retryOf(stored, deps.clock.now()));
    return { before: stored, after };
  });
  notifyOfNewKey(deps, request, before, changed);
  return changed;
}

/** Returns the further faults of a body that the schema has already rejected; locks and writes nothing. */
async function review(deps: WebhookDeps, request: ChangeRequest, kind: Change) {
  const stored = openWebhook(deps, await webhookOf(deps.sql, request));
  return validateChange(deps, request, kind, stored, await findForbiddenReason(deps, request.body.url)).faults;
}

const createRead = (deps: WebhookDeps): Operation =>
  guarded({
    summary: 'One webhook',
    scopes: READ_SCOPES,
    modifiers: ['fields'],
    selects: Object.keys(WEBHOOK_PROPERTIES),
    handle: async (request) => {
      const webhook = await webhookOf(deps.sql, request);
      const document = documentFor(deps, webhook, request);
      const { query } = request;
      return {
        status: 200,
        document: query.has('fields') ? withFields(document, readFieldsOf(query, WEBHOOK_PROPERTIES)) : document,
        beside: () => statisticsOfWebhook(deps, keyOf(request), request.now),
        advice: async () => adviceOfWebhook(deps, webhook, request.now),
      };
    },
  });

const createChange = (
  deps: WebhookDeps,
  kind: Change,
  described: { title: string; summary: string; input: Schemas['part' | 'whole'] },
): Operation =>
  accepting({
    ...described,
    scopes: CHANGE_SCOPES,
    isConditional: true,
    admit: async (request) => void (await webhookOf(deps.sql, request)),
    review: (request) => review(deps, request, kind),
    handle: async (request) => ({
      status: 200,
      document: documentFor(deps, await change(deps, request, kind), request),
    }),
  });

export function createItem(deps: WebhookDeps, { part, whole }: Schemas) {
  return {
    read: createRead(deps),
    patch: createChange(deps, 'part', {
      title: 'Change this webhook',
      summary: 'Changes the given properties and leaves the others unchanged',
      input: part,
    }),
    replace: createChange(deps, 'whole', {
      title: 'Replace this webhook',
      summary: 'Replaces the webhook; absent optional properties return to their defaults',
      input: whole,
    }),
    remove: guarded({
      summary: 'Deletes the webhook; its pending deliveries are not attempted',
      scopes: CHANGE_SCOPES,
      title: 'Delete this webhook',
      isConditional: true,
      isSensitive: true,
      handle: async (request) => {
        const key = keyOf(request);
        const { storeId } = await webhookOf(deps.sql, request);
        await transaction(deps.sql, async (tx) => {
          const row = await lockWebhookOf(tx, request);
          requireChangeable(row);
          const stored = openWebhook(deps, withCurrentKeys(row, request.now));
          request.unmodified(versionOf(stored));
          await deleteWebhook(tx, key);
          await recordWebhook(tx, deps.changelog, { before: stored, after: null }, request);
          await deps.announce(tx, key.shard, [key.id]);
        });
        return { status: 204, next: addressOfWebhooks(storeId, deps.config.baseUrl) };
      },
    }),
  };
}
