/**
 * Publishes changes in a store's configuration as events of the store, in the transaction of the change. Secrets (keys, values
 * of extra headers) are never included; that they changed is.
 */
import type { Queryable } from '#db/pool.ts';
import type { InternalEvent, InternalEventWriter } from '#events/publish/internal-event.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Value } from '#hypermedia/document.ts';
import type { Principal } from '#core/principal.ts';

/** `operator`: a command. `halcyon`: Halcyon itself, such as the end of a grant whose code was used twice. */
export type Actor = {
  kind: 'user' | 'app' | 'platform' | 'operator' | 'halcyon';
  user: number | null;
  /** The public `client_id`. */
  client: string | null;
};

export const OPERATOR: Actor = { kind: 'operator', user: null, client: null };
export const HALCYON: Actor = { kind: 'halcyon', user: null, client: null };

/** Returns the actor of a change made by a user on a page. */
export function inPerson(user: number): Actor {
  return { kind: 'user', user, client: null };
}

/** Returns the actor of a request: a user on a page, an app that acts for a user, or the platform. */
export function actorOf({ scope, userId, publicClientId: client }: Principal): Actor {
  if (scope === 'platform') return { kind: 'platform', user: null, client };
  return { kind: client === null ? 'user' : 'app', user: userId, client };
}

/** Properties under their names in the API. */
export type Facts = { readonly [name: string]: Value };

export type Change = {
  storeId: number;
  actor: Actor;
  resource: 'store' | 'webhook' | 'member' | 'invitation' | 'grant' | 'customer';
  resourceId: number | string;
  action:
    | 'created'
    | 'changed'
    | 'deleted'
    | 'accepted'
    | 'declined'
    | 'deactivated'
    | 'given'
    | 'revoked'
    | 'erased'
    | 'link_created'
    | 'link_used';
  /** Null if the resource did not exist before, or does not exist after. */
  before: Facts | null;
  after: Facts | null;
};

/** Returns the action of a change. */
export function actionOf({ before, after }: Pick<Change, 'before' | 'after'>): 'created' | 'changed' | 'deleted' {
  if (before === null) return 'created';
  return after === null ? 'deleted' : 'changed';
}

/** Returns the properties that differ; all properties if the resource was created or deleted. */
function changedProperties({ before, after }: Pick<Change, 'before' | 'after'>): Pick<Change, 'before' | 'after'> {
  if (before === null || after === null) return { before, after };
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  );
  const select = (properties: Facts) => Object.fromEntries(names.map((name) => [name, properties[name] ?? null]));
  return { before: select(before), after: select(after) };
}

const isChange = ({ before, after }: Pick<Change, 'before' | 'after'>): boolean =>
  before === null || after === null || Object.keys(after).length > 0;

const eventOf = (change: Change, now: Date): InternalEvent => ({
  storeId: change.storeId,
  type: 'changelog',
  resource: ({ id, timeZone }) => ({
    id,
    resource: change.resource,
    resource_id: change.resourceId,
    action: change.action,
    actor: change.actor.kind,
    user: change.actor.user,
    client: change.actor.client,
    before: change.before,
    after: change.after,
    date_created: formatDate(now, timeZone),
  }),
});

/** Returns the id of a resource of the platform as a number, if that is its only spelling. */
function publishedIdOf(id: string): number | string {
  const number = Number(id);
  return Number.isSafeInteger(number) && String(number) === id ? number : id;
}

/** Returns the entry of the erasure of a customer, whose id is all that stays. */
export function customerErased(principal: Principal, { storeId, id }: { storeId: number; id: string }): Change {
  const resourceId = publishedIdOf(id);
  const before = { id: resourceId };
  return {
    storeId,
    actor: actorOf(principal),
    resource: 'customer',
    resourceId,
    action: 'erased',
    before,
    after: null,
  };
}

export type Changelog = {
  /**
   * Writes changes in the transaction that makes them, after the changes themselves: a webhook that was disabled does not
   * receive the event, one that was created does. A change without differences is not written.
   */
  record: (tx: Queryable, changes: readonly Change[], now: Date) => Promise<void>;
};

export function createChangelog(write: InternalEventWriter): Changelog {
  return {
    record: async (tx, changes, now) => {
      const events = changes
        .map((change) => ({ ...change, ...changedProperties(change) }))
        .filter(isChange)
        .map((change) => eventOf(change, now));
      await write(tx, events, now);
    },
  };
}
