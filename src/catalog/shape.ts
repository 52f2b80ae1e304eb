/** How a representation is asked for: the modifiers of a webhook's `query` and of a GET are the same words. */
import { FIELDS_MAX, membersOf, onlyValue, otherNames, unknownParameter } from '#hypermedia/parameters.ts';
import { readZoom, type Relations } from '#hypermedia/zoom.ts';
import { invalid, type Fault } from '#core/problem.ts';
import { relationsOf, resourceTypes, type ResourceType } from './catalog.ts';

export type Shape = { zoom: Relations; fields: ReadonlySet<string> | null };

/** The whole resource, nothing embedded. */
const plain: Shape = { zoom: {}, fields: null };

const MODIFIERS = ['zoom', 'fields'] as const;

/** Adds what is wrong to `faults`, under `field` or else under the name of the modifier. */
const readModifiers = (parameters: URLSearchParams, known: Relations, faults: Fault[], field?: string): Shape => {
  faults.push(...otherNames(parameters, MODIFIERS).map((name) => unknownParameter(name, MODIFIERS, field)));
  let { zoom, fields } = plain;
  const paths = onlyValue(parameters, 'zoom', faults, field);
  if (paths !== undefined) zoom = readZoom(paths, known, faults, field ?? 'zoom');
  if (parameters.has('fields')) fields = new Set(membersOf(parameters, 'fields', FIELDS_MAX, faults, field));
  return { zoom, fields };
};

/** The shape that the query of a GET asks for. Throws a 400 that names everything wrong with it. */
export const shapeOf = (query: URLSearchParams, relations: Relations): Shape => {
  const faults: Fault[] = [];
  const shape = readModifiers(query, relations, faults);
  if (faults.length > 0) throw invalid(...faults);
  return shape;
};

/** A GET with such a query is refused, so a webhook cannot have it either. */
const NOT_ENCODED: Fault = {
  code: 'invalid_value',
  message: 'query must be percent-encoded UTF-8',
  field: 'query',
};

const isEncoded = (query: string): boolean => {
  try {
    return decodeURIComponent(query) !== '';
  } catch {
    return false;
  }
};

/**
 * Reads a webhook's `zoom=…&fields=…` for a resource; for any resource where the webhook has none yet (`null`), which is read
 * again when it gets one. Throws a 400 with one entry for each unknown modifier and each relation that the resource does not
 * have, under `query`.
 */
export const readShape = (query: string, type: ResourceType | null): Shape => {
  if (query === '') return plain;
  const parameters = new URLSearchParams(query);
  let refused: Fault[] = [];
  for (const possible of type === null ? resourceTypes : [type]) {
    const faults: Fault[] = isEncoded(query) ? [] : [NOT_ENCODED];
    const shape = readModifiers(parameters, relationsOf(possible), faults, 'query');
    if (faults.length === 0) return shape;
    refused = faults;
  }
  throw invalid(...refused);
};
