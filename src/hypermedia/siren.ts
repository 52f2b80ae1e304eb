/**
 * Siren (github.com/kevinswiber/siren): pure, and knows no resource. A tree that `JSON.stringify` writes, for the reason that
 * stands in hal.ts.
 */
import type { Document, Embedded, Link, Naming } from './document.ts';
import { addressOfRelation } from './relations.ts';
import { sirenAction } from './siren-action.ts';

type Json = { [name: string]: unknown };

/** The `rel` of a link or an entity. One array serves all of a page that have the same: a page of 20 has 106. */
type Relate = (rel: string) => readonly string[];

const relateIn = (naming: Naming): Relate => {
  const known = new Map<string, readonly string[]>();
  return (rel) => {
    const present = known.get(rel);
    if (present !== undefined) return present;
    const made = [addressOfRelation(rel, naming)];
    known.set(rel, made);
    return made;
  };
};

/** What pages lead from first to last is a collection: a renderer knows no resource. */
const classOf = ({ name, links }: Document): string[] => {
  const isPaged = links.some(({ rel }) => rel === 'first') && links.some(({ rel }) => rel === 'last');
  return isPaged ? [name, 'collection'] : [name];
};

const titleOf = ({ title, links }: Document): string | undefined =>
  title ?? links.find(({ rel }) => rel === 'self')?.title;

/** Siren has no templates, and what is not an address yet is no link. */
const linksOf = (links: readonly Link[], relate: Relate): Json[] =>
  links
    .filter(({ templated }) => templated !== true)
    .map(({ rel, href, title, type }) => ({ rel: relate(rel), href, title, type }));

const entitiesOf = (embedded: readonly Embedded[], relate: Relate): Json[] =>
  embedded.flatMap(({ rel, documents }) => documents.map((document) => entityOf(document, relate, relate(rel))));

/**
 * An entity. It has no `href` where it is embedded: Siren takes one with `href` for a mere link, and its clients drop the
 * rest. What is undefined is left out when it is written.
 */
const entityOf = (document: Document, relate: Relate, rel: readonly string[] | undefined): Json => {
  const { links, embedded, actions } = document;
  const properties: Json = {};
  for (const { name, value } of document.properties) properties[name] = value;
  return {
    class: classOf(document),
    rel,
    title: titleOf(document),
    properties,
    entities: embedded.length === 0 ? undefined : entitiesOf(embedded, relate),
    actions: actions?.map(sirenAction),
    links: links.length === 0 ? undefined : linksOf(links, relate),
  };
};

export const renderSiren = (document: Document, naming: Naming): string =>
  JSON.stringify(entityOf(document, relateIn(naming), undefined));
