/** HAL JSON (draft-kelly-json-hal): pure, and knows no resource. */
import type { Document, Link, Naming, Property, Value } from './document.ts';
import { nameOf, templateOf } from './relations.ts';

type Json = { [name: string]: unknown };

const curies = (naming: Naming): Json[] => [
  { name: naming.relationPrefix, href: templateOf(naming), templated: true },
];

const linkObject = ({ rel: _rel, ...link }: Link): Json => link;

const linksOf = (document: Document, naming: Naming): Json => {
  const links: Json = { curies: curies(naming) };
  for (const link of document.links) {
    const name = nameOf(link.rel, naming);
    const present = links[name];
    if (present === undefined) links[name] = linkObject(link);
    else links[name] = [...(Array.isArray(present) ? present : [present]), linkObject(link)];
  }
  return links;
};

const valueOf = (property: Property): Value =>
  property.kind === 'count' ? JSON.stringify(property.value) : property.value;

const toObject = (document: Document, naming: Naming, root: boolean): Json => {
  const object: Json = {};
  if (root || document.links.length > 0) object['_links'] = linksOf(document, naming);
  if (document.embedded.length > 0) {
    const embedded: Json = {};
    for (const { rel, documents, single } of document.embedded) {
      const objects = documents.map((child) => toObject(child, naming, false));
      embedded[nameOf(rel, naming)] = single === true ? (objects[0] ?? null) : objects;
    }
    object['_embedded'] = embedded;
  }
  for (const property of document.properties) object[property.name] = valueOf(property);
  return object;
};

export const renderHal = (document: Document, naming: Naming): string =>
  JSON.stringify(toObject(document, naming, true));
