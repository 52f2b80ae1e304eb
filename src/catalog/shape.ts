/** Parses the modifiers `zoom`, `fields` and `links`, which a GET and the `query` of a webhook share. */
import { FIELDS_MAX, membersOf, onlyValue, otherNames, unknownParameter } from '#hypermedia/paging.ts';
import { readZoom, type Relations } from '#hypermedia/list-query.ts';
import { invalid, type Fault } from '#core/problem.ts';
import { bareKindOf, resourceTypes, sentAction, zoomableOf, type ResourceType } from './catalog.ts';

/** `links`: the relations whose links are shown; null for all. */
export type Shape = { zoom: Relations; fields: ReadonlySet<string> | null; links: ReadonlySet<string> | null };

/** All properties and links, nothing embedded. */
export const FULL_SHAPE: Shape = { zoom: {}, fields: null, links: null };

/** The links of an event that has only an id: those of its relations would lead to nothing. */
export const BARE_LINKS: ReadonlySet<string> = new Set(['self', 'store']);

/** Returns the shape of an event: one that has only an id keeps it, whatever `fields` names. */
export function shapeOfEvent(shape: Shape, { type, action }: { type: ResourceType; action: string }): Shape {
  if (bareKindOf(type, sentAction(action)) === undefined) return shape;
  return { ...shape, fields: null, links: shape.links ?? BARE_LINKS };
}

const MODIFIERS = ['zoom', 'fields', 'links'] as const;

/** The links of every resource, beside those to its relations. */
const RESOURCE_LINKS = ['self', 'store', 'send_webhooks'];

/** Returns the names of `links`. Adds a fault for each that no resource of this type links to. */
function readLinks(parameters: URLSearchParams, known: Relations, faults: Fault[], field: string): ReadonlySet<string> {
  const names = membersOf(parameters, 'links', FIELDS_MAX, faults, field);
  const possible = [...RESOURCE_LINKS, ...Object.keys(known)];
  for (const name of names.filter((one) => !possible.includes(one))) {
    const message = `links: there is no link "${name}" here; possible: ${possible.join(', ')}`;
    faults.push({ code: 'invalid_parameter', message, field });
  }
  return new Set(names);
}

/** Reads the modifiers and adds faults under `field`, or under the name of the modifier if it is undefined. */
function readModifiers(parameters: URLSearchParams, known: Relations, faults: Fault[], field?: string): Shape {
  faults.push(...otherNames(parameters, MODIFIERS).map((name) => unknownParameter(name, MODIFIERS, field)));
  let { zoom, fields, links } = FULL_SHAPE;
  const paths = onlyValue(parameters, 'zoom', faults, field);
  if (paths !== undefined) zoom = readZoom(paths, known, faults, field ?? 'zoom');
  if (parameters.has('fields')) fields = new Set(membersOf(parameters, 'fields', FIELDS_MAX, faults, field));
  if (parameters.has('links')) links = readLinks(parameters, known, faults, field ?? 'links');
  return { zoom, fields, links };
}

/** Returns the shape of a GET query. Throws a 400 with all faults. */
export function shapeOf(query: URLSearchParams, relations: Relations): Shape {
  const faults: Fault[] = [];
  const shape = readModifiers(query, relations, faults);
  if (faults.length > 0) throw invalid(...faults);
  return shape;
}

/** A GET with such a query is rejected, so a webhook cannot have it either. */
const NOT_ENCODED: Fault = {
  code: 'invalid_value',
  message: 'query must be percent-encoded UTF-8',
  field: 'query',
};

/** Returns whether a query is percent-encoded UTF-8 and not empty. */
export function isEncoded(query: string): boolean {
  try {
    return decodeURIComponent(query) !== '';
  } catch {
    return false;
  }
}

/** Returns the shape for the first type with which it has no faults; null stands for all types. */
function findShape(query: string, type: ResourceType | null): { shape: Shape; faults: readonly Fault[] } {
  let found: { shape: Shape; faults: readonly Fault[] } = { shape: FULL_SHAPE, faults: [] };
  if (query === '') return found;
  const parameters = new URLSearchParams(query);
  for (const candidate of type === null ? resourceTypes() : [type]) {
    const faults: Fault[] = isEncoded(query) ? [] : [NOT_ENCODED];
    found = { shape: readModifiers(parameters, zoomableOf(candidate), faults, 'query'), faults };
    if (faults.length === 0) break;
  }
  return found;
}

/** Returns the faults of a webhook's query for a resource type, as `readShape` throws them. */
export function shapeFaults(query: string, type: ResourceType | null): readonly Fault[] {
  return findShape(query, type).faults;
}

/**
 * Returns the shape of a webhook's query for a resource type. If the webhook has no type yet (`null`), the query must be valid
 * for at least one type and is validated again when the type is set. Throws a 400 with one fault for each unknown modifier or
 * relation, under `query`.
 */
export function readShape(query: string, type: ResourceType | null): Shape {
  const { shape, faults } = findShape(query, type);
  if (faults.length > 0) throw invalid(...faults);
  return shape;
}

/**
 * Returns the shape of the query that a webhook has, for a delivery. It omits relations that the operator has removed from the
 * catalog since the query was validated.
 */
export function storedShape(query: string, type: ResourceType | null): Shape {
  return findShape(query, type).shape;
}
