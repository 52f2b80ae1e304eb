/** The `format` values of a webhook: body, content type, and use of the key. */
import { createHash } from 'node:crypto';
import type { Document, Naming, Value, Property } from '#hypermedia/document.ts';
import { renderHal } from '#hypermedia/hal.ts';
import { isObject, nameOf } from '#catalog/resource-document.ts';
import { bareKindOf, collectionOf } from '#catalog/catalog.ts';
import type { EventRow } from '../delivery-sql.ts';

// CloudEvents 1.0.2: the attributes of an event beside its data (JSON Event Format §2), or as headers (HTTP Protocol
// Binding §3.1).

/** Differs from the media type of the representation, which the CloudEvents SDK for JavaScript leaves as text in binary mode. */
const DATA_TYPE = 'application/json';

/**
 * Returns the attributes of an event, the same for all webhooks and retries: receivers may drop an event whose `source` and `id` they
 * have seen (§3.1.1). The nonce makes the id differ from one that is allocated again after a restore from a backup.
 */
function attributesOf({ id, nonce, baseUrl, storeId, type, action, resourceId, version, dateCreated }: EventRow) {
  return {
    specversion: '1.0',
    id: `evt_${id.toString(36)}_${nonce.toString(36)}`,
    source: `${baseUrl}/stores/${storeId}`,
    type: `${type}/${action}`,
    subject: `${collectionOf(type)}/${encodeURIComponent(resourceId)}`,
    time: dateCreated.toISOString(),
    resourceversion: version,
  };
}

/** Returns the event in structured mode: `data` is the JSON text of the representation. */
function cloudEventText(event: EventRow, data: string): string {
  const attributes = JSON.stringify({ ...attributesOf(event), datacontenttype: DATA_TYPE });
  return `${attributes.slice(0, -1)},"data":${data}}`;
}

/** HTTP Protocol Binding §3.1.3.2. */
const encoded = (text: string): string =>
  text.replaceAll(/[^\x21-\x7e]|["%]/gu, (character) => encodeURIComponent(character));

/** Returns the headers of binary mode, names and values alternating; the body is the representation. */
function cloudEventHeaders(event: EventRow): string[] {
  return Object.entries(attributesOf(event)).flatMap(([name, value]) => [`ce-${name}`, encoded(String(value))]);
}

// Flattens nested objects: the name of a nested member is its path. Pure.

/** Separates the names of a path: `customer_email`, or `customer-email`, where `_` within names becomes `-` too. */
export type Separator = '_' | '-';

/**
 * Maximum length of a path prefix: a name of 100 KB around thousands of members would be repeated thousands of times.
 */
const PATH_CHARACTERS = 100;

/** The members of a document: a list, because a property and a relation may have the same name. */
class Members {
  readonly list: readonly Member[];

  constructor(list: readonly Member[]) {
    this.list = list;
  }
}
type Node = Value | Members | readonly Members[];
type Member = readonly [name: string, node: Node];

/** Returns the properties, then the embedded documents, single or as lists. */
export function membersOf({ properties, embedded }: Document): Members {
  return new Members([
    ...properties.map(({ name, value }): Member => [name, value]),
    ...embedded.map(({ rel, documents, single }): Member => {
      const found = documents.map(membersOf);
      return [rel, single === true ? (found[0] ?? null) : found];
    }),
  ]);
}

function listOf(node: Node): readonly Member[] | undefined {
  if (node instanceof Members) return node.list;
  return isObject(node) ? Object.entries(node) : undefined;
}

/**
 * JSON texts of members by name, in insertion order: an object would put integer-like names first. A duplicate name is
 * numbered, `customer_email_2`; the less nested member comes first and keeps the plain name.
 */
export class Flat {
  readonly #texts = new Map<string, string>();
  /** Next number per name, so that thousands of duplicates do not each count from the start. */
  readonly #numbers = new Map<string, number>();
  readonly #separator: Separator;

  constructor(separator: Separator) {
    this.#separator = separator;
  }

  add(name: string, text: string): void {
    const key = this.#separator === '_' ? name : name.replaceAll('_', this.#separator);
    this.#texts.set(this.#texts.has(key) ? this.#numberedName(key) : key, text);
  }

  /** Breadth first. An object without members adds nothing. */
  addAll(members: Members): void {
    let level: { path: string; list: readonly Member[] }[] = [{ path: '', list: members.list }];
    while (level.length > 0) {
      const below: typeof level = [];
      for (const { path, list } of level) {
        for (const [name, node] of list) {
          const whole = path === '' ? name : path + this.#separator + name;
          const nested = listOf(node);
          if (nested === undefined) this.add(whole, this.#toJson(node));
          else below.push({ path: whole.slice(0, PATH_CHARACTERS), list: nested });
        }
      }
      level = below;
    }
  }

  text(): string {
    return `{${[...this.#texts].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
  }

  #numberedName(name: string): string {
    let number = this.#numbers.get(name) ?? 2;
    while (this.#texts.has(`${name}${this.#separator}${number}`)) number += 1;
    this.#numbers.set(name, number + 1);
    return `${name}${this.#separator}${number}`;
  }

  /** Objects in a list are flattened individually. The nesting of lists is limited when events are published. */
  #toJson(node: Node): string {
    if (Array.isArray(node)) return `[${(node as readonly Node[]).map((item) => this.#toJson(item)).join(',')}]`;
    const list = listOf(node);
    if (list === undefined) return JSON.stringify(node);
    const flat = new Flat(this.#separator);
    flat.addAll(new Members(list));
    return flat.text();
  }
}

export type FormatName = 'json' | 'partner_automation' | 'partner_sitebuilder' | 'cloudevents' | 'cloudevents_binary';

type Format = {
  contentType: string;
  /** Required properties, included even if `fields=` does not name them. */
  needs: readonly string[];
  /** Writes the body; absent if it is the representation that GET returns. */
  write?: (document: Document, event: EventRow, naming: Naming) => string;
  /** Headers of the event, names and values alternating. */
  headersOf?: (event: EventRow) => string[];
  /**
   * `signs`: the key signs the body. `opens`: the key is a bearer token of the receiving platform and must stay
   * confidential.
   */
  key: 'signs' | 'opens';
  /**
   * Whether bodies are encrypted over plain http if there is a key. Platforms with a format of their own could not
   * decrypt them.
   */
  isEncrypted: boolean;
};

export const formats: { readonly [name in FormatName]: Format } = {
  json: { contentType: 'application/hal+json', needs: [], key: 'signs', isEncrypted: true },
  cloudevents: {
    contentType: 'application/cloudevents+json',
    needs: [],
    write: (document, event, naming) => cloudEventText(event, renderHal(document, naming)),
    key: 'signs',
    isEncrypted: false,
  },
  cloudevents_binary: {
    contentType: DATA_TYPE,
    needs: [],
    headersOf: cloudEventHeaders,
    key: 'signs',
    isEncrypted: false,
  },
  partner_automation: {
    contentType: 'application/json',
    needs: ['id'],
    write: automationText,
    key: 'signs',
    isEncrypted: false,
  },
  partner_sitebuilder: {
    contentType: 'application/json',
    needs: ['name', 'slug'],
    write: siteItemText,
    key: 'opens',
    isEncrypted: false,
  },
};

// The REST-hook format of workflow-automation platforms: one flat object from which users pick fields.

/** `id` and `event` come first and keep these names whatever else is published: platforms identify items by `id`. */
function automationText(document: Document, event: EventRow): string {
  const id = document.properties.find(({ name }) => name === 'id')?.value ?? event.resourceId;
  const properties = document.properties.filter(({ name }) => name !== 'id');
  const flat = new Flat('_');
  flat.add('id', JSON.stringify(id));
  flat.add('event', JSON.stringify(`${event.type}/${event.action}`));
  flat.addAll(membersOf({ ...document, properties }));
  return flat.text();
}

// The CMS-item format of site builders: hyphenated fields, and two that every item must have.

/** The allowed characters of an item's URL segment. */
const SLUG = /^[\w-]{1,256}$/;
const HASH_CHARACTERS = 8;

/** Returns a slug unique per resource; names could collide. An id with other characters gets a hash appended. */
function slugOf({ type, resourceId }: EventRow): string {
  const plain = resourceId.replaceAll(/[^\w-]+/g, '-');
  const hash = createHash('sha256').update(resourceId).digest('hex').slice(0, HASH_CHARACTERS);
  return `${type.replaceAll('_', '-')}-${plain === resourceId ? plain : `${plain}-${hash}`}`;
}

const isName = ({ name, value }: Property): boolean =>
  name === 'name' && typeof value === 'string' && value.trim() !== '';
const isSlug = ({ name, value }: Property): boolean => name === 'slug' && typeof value === 'string' && SLUG.test(value);

/** Returns the item; `name` and `slug` come from the publisher if valid, otherwise they are generated. */
function siteItemText(document: Document, event: EventRow): string {
  const { properties } = document;
  const name = properties.find(isName)?.value ?? nameOf({ type: event.type, id: event.resourceId });
  const slug = properties.find(isSlug)?.value ?? slugOf(event);
  const fields = new Flat('-');
  fields.add('name', JSON.stringify(name));
  fields.add('slug', JSON.stringify(slug));
  const others = properties.filter((property) => !isName(property) && !isSlug(property));
  fields.addAll(membersOf({ ...document, properties: others }));
  const kind = bareKindOf(event.type, event.action);
  const isArchived = kind === 'deletion' || kind === 'erasure';
  return `{"fieldData":${fields.text()},"isArchived":${isArchived},"isDraft":false}`;
}
