/** Describes entries of the changelog in sentences: "owner@shop.example renamed a webhook to Orders". */
import type { Value } from '#hypermedia/document.ts';
import { inSentence } from '#hypermedia/html/words.ts';

type Facts = Readonly<Record<string, Value>>;

export type Entry = {
  resource: string;
  resourceId: number;
  action: string;
  actor: string;
  user: number | null;
  client: string | null;
  before: Facts | null;
  after: Facts | null;
};

/** Names of what entries refer to by id, as far as the reader may know them. */
export type Names = {
  /** E-mail addresses of the members of the store. */
  members: ReadonlyMap<number, string>;
  /** By `client_id`. */
  apps: ReadonlyMap<string, string>;
  /** The webhooks that exist. */
  webhooks: ReadonlyMap<number, string>;
};

/** A sentence in parts; `object` is the name of the changed resource, which a page may link or emphasize. */
export type Sentence = { subject: string; verb: string; object: string | null; end: string };

type Predicate = Omit<Sentence, 'subject'>;

const personOf = (user: number | null, { members }: Names): string =>
  user === null ? 'a user' : (members.get(user) ?? `user ${user}`);

/** E-mail addresses stay as they are. */
const capitalized = (person: string): string =>
  person.replace(/^(?:a|user)(?= )/, (word) => word.charAt(0).toUpperCase() + word.slice(1));

function subjectOf({ actor, user, client }: Entry, names: Names): string {
  if (actor === 'user') return capitalized(personOf(user, names));
  if (actor === 'app') return `${names.apps.get(client ?? '') ?? 'An app'}, for ${personOf(user, names)},`;
  if (actor === 'platform') return 'The platform';
  return actor === 'operator' ? 'The operator' : 'Halcyon';
}

const textOf = (facts: Facts | null, name: string): string | undefined => {
  const value = facts?.[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
};

const listed = new Intl.ListFormat('en');
const changedNames = ({ after }: Entry): string[] => Object.keys(after ?? {});
const changedProperties = (entry: Entry): string => listed.format(changedNames(entry).map(inSentence));

/** The reasons in `inactive_reason` (docs/changelog.md). */
const DISABLED_BECAUSE: Readonly<Record<string, string>> = {
  failures: 'after too many consecutive failed attempts',
  gone: 'because its endpoint answered 410 (Gone)',
  access_ended: 'because the app that created it lost its access',
};

/** The words of `encryption_key` in an entry say what happened to the key. */
function keyVerb(after: Facts | null): string {
  const word = textOf(after, 'encryption_key');
  return word === 'set' || word === 'removed' ? word : 'replaced';
}

function changeOfWebhook(entry: Entry): { verb: string; end?: string } {
  const changed = changedNames(entry);
  const concerns = (...names: readonly string[]): boolean => changed.every((name) => names.includes(name));
  if (concerns('name')) return { verb: 'renamed a webhook to', end: `(was ${textOf(entry.before, 'name') ?? ''})` };
  if (concerns('is_active', 'inactive_reason'))
    return { verb: textOf(entry.after, 'is_active') === '1' ? 'enabled the webhook' : 'disabled the webhook' };
  if (concerns('encryption_key')) return { verb: `${keyVerb(entry.after)} the key of the webhook` };
  if (concerns('encryption_key', 'next_encryption_key', 'rotation_ends'))
    return {
      verb: textOf(entry.after, 'rotation_ends') === undefined ? 'ended the key rotation of' : 'rotated the key of',
    };
  return { verb: `changed ${changedProperties(entry)} of the webhook` };
}

function webhookPredicate(entry: Entry, { webhooks }: Names): Predicate {
  const { before, after, action, resourceId } = entry;
  const then = textOf(after, 'name') ?? textOf(before, 'name');
  const object = then ?? webhooks.get(resourceId) ?? `Webhook ${resourceId}`;
  if (action === 'created') return { verb: 'created the webhook', object, end: '' };
  if (action === 'deleted') return { verb: 'deleted the webhook', object, end: '' };
  if (action === 'deactivated')
    return {
      verb: 'disabled the webhook',
      object,
      end: DISABLED_BECAUSE[textOf(after, 'inactive_reason') ?? ''] ?? '',
    };
  const { verb, end = '' } = changeOfWebhook(entry);
  return { verb, object, end };
}

function memberPredicate({ before, after, action, resourceId, user }: Entry, { members }: Names): Predicate {
  const object = members.get(resourceId) ?? `user ${resourceId}`;
  const [from, to] = [textOf(before, 'role') ?? '', textOf(after, 'role') ?? ''];
  // The person has accepted an invitation.
  if (action === 'created' && user === resourceId) return { verb: 'joined the store', object: null, end: `as ${to}` };
  if (action === 'created') return { verb: 'added', object, end: `as ${to}` };
  if (action === 'deleted') return { verb: 'removed', object, end: 'from the store' };
  return { verb: 'changed the role of', object, end: `from ${from} to ${to}` };
}

/** The invited address is not in the entry, because only owners may see it. */
function invitationPredicate({ before, after, action }: Entry): Predicate {
  const end = `as ${textOf(after ?? before, 'role') ?? ''}`;
  if (action === 'created') return { verb: 'invited a person', object: null, end };
  if (action === 'accepted') return { verb: 'accepted the invitation', object: null, end };
  if (action === 'declined') return { verb: 'declined the invitation', object: null, end };
  return { verb: 'revoked the invitation of a person', object: null, end };
}

/** A grant belongs to one user. It is named unless that user made the change. */
function grantPredicate({ before, after, action, user }: Entry, names: Names): Predicate {
  const facts = after ?? before;
  const object = textOf(facts, 'name') ?? names.apps.get(textOf(facts, 'client_id') ?? '') ?? 'An app';
  const owner = facts?.['user_id'];
  const whose = typeof owner !== 'number' || owner === user ? '' : ` for ${personOf(owner, names)}`;
  return action === 'given'
    ? { verb: 'connected the app', object, end: `to this store${whose}` }
    : { verb: 'disconnected the app', object, end: `from this store${whose}` };
}

function predicateOf(entry: Entry, names: Names): Predicate {
  switch (entry.resource) {
    case 'webhook':
      return webhookPredicate(entry, names);
    case 'member':
      return memberPredicate(entry, names);
    case 'invitation':
      return invitationPredicate(entry);
    case 'grant':
      return grantPredicate(entry, names);
    default:
      return entry.action === 'created'
        ? { verb: 'created the store', object: null, end: '' }
        : { verb: `changed ${changedProperties(entry)} of the store`, object: null, end: '' };
  }
}

/** Returns the sentence of an entry. */
export function sentenceOf(entry: Entry, names: Names): Sentence {
  return { subject: subjectOf(entry, names), ...predicateOf(entry, names) };
}
