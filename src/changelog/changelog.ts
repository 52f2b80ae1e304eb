/**
 * Who changed what in a store: written as an event of the store, in the transaction of the change itself. What would let
 * anybody in (keys, values of extra headers) is never in it; that it changed, is.
 */
import type { Queryable } from '#db/pool.ts';
import type { Fact, InternalEventWriter } from '#events/publish/internal-event.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Value } from '#hypermedia/document.ts';
import type { Principal } from '#core/principal.ts';

/** `operator`: by a command. `halcyon`: by itself, such as the end of a grant whose code came twice. */
export type Actor = {
  kind: 'user' | 'app' | 'platform' | 'operator' | 'halcyon';
  user: number | null;
  /** The public `client_id`. */
  client: string | null;
};

export const OPERATOR: Actor = { kind: 'operator', user: null, client: null };
export const HALCYON: Actor = { kind: 'halcyon', user: null, client: null };

/** Somebody at a page of ours. */
export const inPerson = (user: number): Actor => ({ kind: 'user', user, client: null });

/** Who stands behind a request: a person at a page, an app that acts for one, or the platform. */
export const actorOf = ({ scope, userId, publicClientId: client }: Principal): Actor => {
  if (scope === 'platform') return { kind: 'platform', user: null, client };
  return { kind: client === null ? 'user' : 'app', user: userId, client };
};

/** Properties by their names in the API. */
export type Facts = { readonly [name: string]: Value };

export type Change = {
  storeId: number;
  actor: Actor;
  resource: 'store' | 'webhook' | 'member' | 'grant';
  resourceId: number;
  action: 'created' | 'changed' | 'deleted' | 'deactivated' | 'given' | 'revoked';
  /** Null where there was nothing before, or is nothing after. */
  before: Facts | null;
  after: Facts | null;
};

/** What happened to something that a change made, changed or took away. */
export const actionOf = ({ before, after }: Pick<Change, 'before' | 'after'>): 'created' | 'changed' | 'deleted' => {
  if (before === null) return 'created';
  return after === null ? 'deleted' : 'changed';
};

const isSame = (a: Value | undefined, b: Value | undefined): boolean => JSON.stringify(a) === JSON.stringify(b);

/** What differs; where one side is nothing, the whole other side. */
const narrowed = ({ before, after }: Pick<Change, 'before' | 'after'>): Pick<Change, 'before' | 'after'> => {
  if (before === null || after === null) return { before, after };
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => !isSame(before[name], after[name]),
  );
  const of = (facts: Facts) => Object.fromEntries(names.map((name) => [name, facts[name] ?? null]));
  return { before: of(before), after: of(after) };
};

const isChange = ({ before, after }: Pick<Change, 'before' | 'after'>): boolean =>
  before === null || after === null || Object.keys(after).length > 0;

const factOf = (change: Change, now: Date): Fact => ({
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

export type Changelog = {
  /**
   * Writes changes down in the transaction that makes them, after it made them: so a webhook that was switched off is not
   * told of it, and one that was made is. A change in which nothing differs is none.
   */
  record: (tx: Queryable, changes: readonly Change[], now: Date) => Promise<void>;
};

export const createChangelog = (write: InternalEventWriter): Changelog => ({
  record: async (tx, changes, now) => {
    const facts = changes
      .map((change) => ({ ...change, ...narrowed(change) }))
      .filter(isChange)
      .map((change) => factOf(change, now));
    await write(tx, facts, now);
  },
});
