/** Renders Siren (github.com/kevinswiber/siren). Builds a tree for `JSON.stringify`, for the reason in hal.ts. */
import { type Document, type Embedded, type Link, type Naming, addressOfRelation } from './document.ts';
import { sirenAction } from './siren-action.ts';

type Json = { [name: string]: unknown };

/** Returns the `rel` of a link or an entity. Equal ones of a page share one array: a page of 20 items has 106. */
type RelArray = (rel: string) => readonly string[];

function createRelArray(naming: Naming): RelArray {
  const known = new Map<string, readonly string[]>();
  return (rel) => {
    const present = known.get(rel);
    if (present !== undefined) return present;
    const array = [addressOfRelation(rel, naming)];
    known.set(rel, array);
    return array;
  };
}

/** A document with the paging links `first` and `last` is a collection. */
function classOf({ name, links }: Document): string[] {
  const isPaged = links.some(({ rel }) => rel === 'first') && links.some(({ rel }) => rel === 'last');
  return isPaged ? [name, 'collection'] : [name];
}

const titleOf = ({ title, links }: Document): string | undefined =>
  title ?? links.find(({ rel }) => rel === 'self')?.title;

/** Omits templated links, which Siren does not support. */
const linksOf = (links: readonly Link[], relArray: RelArray): Json[] =>
  links
    .filter(({ templated }) => templated !== true)
    .map(({ rel, href, title, type }) => ({ rel: relArray(rel), href, title, type }));

const entitiesOf = (embedded: readonly Embedded[], relArray: RelArray): Json[] =>
  embedded.flatMap(({ rel, documents }) => documents.map((document) => entityOf(document, relArray, relArray(rel))));

/**
 * Returns an entity. An embedded one has no `href`: Siren treats an entity with `href` as a mere link, and clients drop
 * the rest. JSON omits undefined members.
 */
function entityOf(document: Document, relArray: RelArray, rel: readonly string[] | undefined): Json {
  const { links, embedded, actions } = document;
  const properties: Json = {};
  for (const { name, value } of document.properties) properties[name] = value;
  return {
    class: classOf(document),
    rel,
    title: titleOf(document),
    properties,
    entities: embedded.length === 0 ? undefined : entitiesOf(embedded, relArray),
    actions: actions?.map(sirenAction),
    links: links.length === 0 ? undefined : linksOf(links, relArray),
  };
}

export function renderSiren(document: Document, naming: Naming): string {
  return JSON.stringify(entityOf(document, createRelArray(naming), undefined));
}
