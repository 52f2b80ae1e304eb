/**
 * The page of a store's changelog: who changed what, newest first, with filters by person, app and kind of change. Each entry is a
 * sentence: "owner@shop.example renamed a webhook to Orders".
 */
import { parseExact } from '#core/exact-number.ts';
import type { Document, Naming, Value } from '#hypermedia/document.ts';
import { collectionOf, pager, byDay, datedItems } from '#hypermedia/html/content.ts';
import { dataTable } from '#hypermedia/html/data-table.ts';
import { hrefOf, ownPath } from '#hypermedia/html/links.ts';
import { renderDesigned } from '#hypermedia/html/document-page.ts';
import { parseAddress, searchPart, searchMark, select } from '#hypermedia/html/search-form.ts';
import { isTrue, plainText } from '#hypermedia/html/property-values.ts';
import { labelOf, inSentence } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { addressOf, isObject, resourceView, type JsonObject } from '#catalog/resource-document.ts';
import type { ChangelogEntry } from '#catalog/internal-types.ts';

export type Entry = ChangelogEntry;

type Facts = Entry['before'];

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
type Sentence = { subject: string; verb: string; object: string | null; end: string };

type Predicate = Omit<Sentence, 'subject'>;

const personOf = (user: number | null, { members }: Names): string =>
  user === null ? 'a person' : (members.get(user) ?? `former member ${user}`);

/** E-mail addresses stay as they are. */
const capitalized = (person: string): string =>
  person.replace(/^(?:a|former)(?= )/, (word) => word.charAt(0).toUpperCase() + word.slice(1));

function subjectOf({ actor, user, client }: Entry, names: Names): string {
  if (actor === 'user') return capitalized(personOf(user, names));
  if (actor === 'app') return `${names.apps.get(client ?? '') ?? 'An app'}, for ${personOf(user, names)},`;
  if (actor === 'platform') return 'The platform';
  return actor === 'operator' ? 'The operator' : 'Halcyon';
}

const textOf = (facts: Facts, name: string): string | undefined => {
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
  suspended: 'because the operator of this service suspended the store or its app',
};

/** The words of `encryption_key` in an entry say what happened to the key. */
function keyVerb(after: Facts): string {
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
  const { before, after, action, resource_id: resourceId } = entry;
  const then = textOf(after, 'name') ?? textOf(before, 'name');
  const object = then ?? webhooks.get(Number(resourceId)) ?? `Webhook ${resourceId}`;
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

function memberPredicate({ before, after, action, resource_id: resourceId, user }: Entry, names: Names): Predicate {
  const object = personOf(Number(resourceId), names);
  const [from, to] = [textOf(before, 'role') ?? '', textOf(after, 'role') ?? ''];
  if (action === 'link_created') return { verb: 'made a link that opens this store for', object, end: '' };
  if (action === 'link_used') return { verb: 'opened the store with a link of the platform', object: null, end: '' };
  // The person has accepted an invitation.
  if (action === 'created' && user === resourceId) return { verb: 'joined the store', object: null, end: `as ${to}` };
  if (action === 'deleted' && user === resourceId) return { verb: 'left the store', object: null, end: '' };
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

function storePredicate(entry: Entry): Predicate {
  if (entry.action === 'created') return { verb: 'created the store', object: null, end: '' };
  if (!changedNames(entry).includes('suspended_reason'))
    return { verb: `changed ${changedProperties(entry)} of the store`, object: null, end: '' };
  const reason = textOf(entry.after, 'suspended_reason');
  return reason === undefined
    ? { verb: 'ended the suspension of the store', object: null, end: '' }
    : { verb: 'suspended the store:', object: null, end: reason };
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
    case 'customer':
      return { verb: 'erased the data of', object: `customer ${entry.resource_id}`, end: '' };
    case 'store':
      return storePredicate(entry);
  }
}

/** Returns the sentence of an entry. */
export function sentenceOf(entry: Entry, names: Names): Sentence {
  return { subject: subjectOf(entry, names), ...predicateOf(entry, names) };
}

type Choices = readonly (readonly [value: string, text: string])[];

const KINDS: Choices = [
  ['webhook', 'Webhooks'],
  ['grant', 'Apps'],
  ['member', 'Members'],
  ['invitation', 'Invitations'],
  ['customer', 'Customers'],
  ['store', 'Store'],
];

/** Returns whether the page can describe the resource: another release may have written it. */
const isEntry = (resource: JsonObject): resource is Entry =>
  KINDS.some(([kind]) => kind === resource['resource']) &&
  ['number', 'string'].includes(typeof resource['resource_id']) &&
  ['action', 'actor', 'date_created'].every((name) => typeof resource[name] === 'string') &&
  (isObject(resource['before']) || isObject(resource['after']));

/** Returns the entry with this JSON text; undefined if it cannot be described. */
export function parseEntry(body: string): Entry | undefined {
  const resource = parseExact(body) as JsonObject;
  return isEntry(resource) ? resource : undefined;
}

/** Returns the sentence of an entry as one text. */
export function textOfEntry(entry: Entry, names: Names): string {
  const { subject, verb, object, end } = sentenceOf(entry, names);
  return [subject, verb, object, end].filter(Boolean).join(' ');
}

/** Returns the entries of the document; undefined if they cannot be described in sentences below the headings of days. */
export function entriesOf(document: Document, naming: Naming): readonly Entry[] | undefined {
  const resources = datedItems(document, naming, resourceView);
  return resources !== undefined && resources.length > 0 && resources.every(isEntry) ? resources : undefined;
}

function factText(name: string, value: Value | undefined): string {
  if (value === undefined || value === null || value === '') return '–';
  if (name.startsWith('is_')) return isTrue(value) ? 'Yes' : 'No';
  if (Array.isArray(value)) return value.map(plainText).join(', ') || '–';
  return plainText(value);
}

/** Renders the changed properties, folded below the sentence. */
function details({ id, before, after }: Entry, { label, href }: { label: string; href: string | undefined }): Markup {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const both = [
    ['Before', before],
    ['After', after],
  ] as const;
  const states = both.filter(([, facts]) => facts !== null);
  return html`<details class="fold">
    <summary>Details<span class="unseen"> of ${label}</span></summary>
    ${dataTable(
      `Values of entry ${id}`,
      ['Property', ...states.map(([name]) => name)].map((name) => ({ name })),
      names.map((name) => [labelOf(name)].concat(states.map(([, facts]) => factText(name, facts?.[name])))),
      { hasRowHeadings: true },
    )}
    ${
      href !== undefined &&
      html`<p>
        <a href="${href}">Open this entry<span class="unseen">: ${label}</span></a>
      </p>`
    }
  </details>`;
}

type RowContext = { names: Names; naming: Naming; storeId: number };

function row(entry: Entry, time: string, { names, naming, storeId }: RowContext): Markup {
  const { subject, verb, object, end } = sentenceOf(entry, names);
  const hasPage = entry.resource === 'webhook' && names.webhooks.has(Number(entry.resource_id));
  const shownObject =
    object !== null &&
    (hasPage
      ? html`<a href="${ownPath(`/webhooks/${entry.resource_id}`, naming)}">${object}</a>`
      : html`<strong>${object}</strong>`);
  const address = addressOf({ baseUrl: naming.baseUrl, storeId, type: 'changelog', id: String(entry.id) });
  const label = `${textOfEntry(entry, names)} ${time}`;
  return html`<p><strong>${subject}</strong> ${verb} ${shownObject} ${end}</p>
    ${details(entry, { label, href: hrefOf(address, naming) })}`;
}

/** The filters of the form: the parameter of the API, its label, and its choices. */
const filtersOf = ({ members, apps }: Names): readonly (readonly [name: string, label: string, choices: Choices])[] => [
  ['resource', 'What', KINDS],
  ['user', 'Changed by', [...members].map(([id, email]) => [String(id), email])],
  ['client', 'Through the app', [...apps]],
];

/** Renders the filter form. Parameters that it does not show are kept, and shown as filters that can be removed. */
function filterForm(document: Document, naming: Naming, names: Names): Markup {
  const { path, parameters, filters } = parseAddress(document, naming);
  const shown = filtersOf(names);
  const isShown = (name: string): boolean => shown.some((filter) => filter[0] === name);
  const currentOf = (name: string): string => parameters.find((parameter) => parameter[0] === name)?.[1] ?? '';
  const kept = parameters.filter(([name]) => name !== 'offset' && !isShown(name));
  return html`<form class="filter" method="get" action="${path}" role="search" aria-label="Changes">
      ${searchMark} ${kept.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
      ${shown.map(
        ([name, label, choices]) =>
          html`<div class="field">
            <label for="filter-${name}">${label}</label>
            ${select(`filter-${name}`, name, currentOf(name), choices)}
          </div>`,
      )}
      <button type="submit" class="quiet">Filter</button>
      ${filters.length > 0 && html`<a href="${path}">Show all</a>`}
    </form>
    ${filters.some(([name, value]) => !isShown(name) || value === '') && searchPart(document, naming)}`;
}

/** Renders the changelog page of these entries of a store. */
export function changelogPage(
  { document, naming, view }: { document: Document; naming: Naming; view: View },
  { entries, names, storeId }: { entries: readonly Entry[]; names: Names; storeId: number },
): string {
  const collection = collectionOf(document);
  const main = html`<div class="card">
    <h1>Changelog</h1>
    <p class="soft">Changes of this store's settings, webhooks, members and apps. Secrets are never shown.</p>
    ${filterForm(document, naming, names)}
    ${byDay(
      entries,
      ({ date_created: date }) => date,
      (entry, time) => row(entry, time, { names, naming, storeId }),
    )}
    ${collection !== undefined && pager(document, collection, naming)}
  </div>`;
  return renderDesigned({ document, naming, view, main });
}
