/** The bytes of a representation: those that GET answers, however they come about, and those of the other formats. */
import { isInternal, type ResourceType } from '#catalog/catalog.ts';
import { resourceDocument, resourceHead } from '#catalog/document.ts';
import type { Shape } from '#catalog/shape.ts';
import { renderHal } from '#hypermedia/hal.ts';
import { formats, type FormatName } from './formats/formats.ts';
import type { EventRow } from './event-sql.ts';

/** Stand where the store's id and the resource's go, in a head that is kept: no origin has them in it. */
const STORE = Number.NEGATIVE_INFINITY;
const ID = '(id)';

/** What comes before the resource's own members, taken apart where an id goes, and there where the store's goes. */
type Head = readonly (readonly string[])[];

/** One a type and base URL: there are seven, and the base URL changes with the operator's mind. */
const HEADS_MAX = 100;

/**
 * Whether the text of a resource is what its members would be written as. It was written by `JSON.stringify` when the
 * event was published, so only what is left out of it (`_links`, `_embedded`) or stands before the links matters: names that
 * are whole numbers come first in an object. A value that begins with `_` is taken for such a name, and costs its time.
 */
const isAsWritten = (text: string): boolean => /^\{"(?!\d)/.test(text) && !text.includes('"_');

export class Representations {
  readonly #relationPrefix: string;
  readonly #heads = new Map<string, Head>();

  constructor(relationPrefix: string) {
    this.#relationPrefix = relationPrefix;
  }

  /**
   * The whole resource, nothing embedded: its text with the links before it, unread. 1 KB takes 0.7 µs so, and 4.3 read and
   * written again; 30 members take 2 and 16. Undefined where the text has to be read.
   */
  spliced({ type, storeId, resourceId, baseUrl, body }: EventRow): Uint8Array | undefined {
    if (isInternal(type) || !isAsWritten(body)) return undefined;
    const id = encodeURIComponent(resourceId);
    const head = this.#headOf(type, baseUrl).map((pieces) => pieces.join(String(storeId)));
    return Buffer.from(`${head.join(id)},${body.slice(1)}`);
  }

  /** What was asked for of it. */
  rendered(event: EventRow, { zoom, fields }: Shape, format: FormatName): Uint8Array {
    const { storeId, type, resourceId: id, baseUrl, body } = event;
    const { needs, write } = formats[format];
    const requestedFields = fields === null || needs.length === 0 ? fields : new Set([...fields, ...needs]);
    const document = resourceDocument({ storeId, type, id, baseUrl, body }, { zoom, fields: requestedFields });
    return Buffer.from(write(document, event, { baseUrl, relationPrefix: this.#relationPrefix }));
  }

  #headOf(type: ResourceType, baseUrl: string): Head {
    const key = `${type} ${baseUrl}`;
    const present = this.#heads.get(key);
    if (present !== undefined) return present;
    const document = resourceHead({ storeId: STORE, type, id: ID, baseUrl });
    const text = renderHal(document, { baseUrl, relationPrefix: this.#relationPrefix }).slice(0, -1);
    const head = text.split(ID).map((piece) => piece.split(String(STORE)));
    if (this.#heads.size >= HEADS_MAX) this.#heads.clear();
    this.#heads.set(key, head);
    return head;
  }
}
