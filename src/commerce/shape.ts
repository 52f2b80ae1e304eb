/** How a representation is asked for: the modifiers of a webhook's `query` and of a GET are the same words. */
import { readZoom, type Relations } from '#hypermedia/zoom.ts';
import { invalid, type Fault } from '#kernel/problem.ts';
import { relationsOf, type ResourceType } from './catalogue.ts';

export type Shape = { zoom: Relations; fields: ReadonlySet<string> | null };

/** The whole resource, nothing embedded. */
const plain: Shape = { zoom: {}, fields: null };

const FIELDS_MAX = 100;

/** Adds what is wrong to `faults`, under `field` or else under the name of the modifier. */
const readModifiers = (parameters: URLSearchParams, known: Relations, faults: Fault[], field?: string): Shape => {
  let { zoom, fields } = plain;
  for (const [name, value] of parameters) {
    const fail = (code: string, message: string) => void faults.push({ code, message, field: field ?? name });
    if (parameters.getAll(name).length > 1) fail('duplicate_parameter', `${name} is given twice`);
    else if (name === 'zoom') zoom = readZoom(value, known, faults, field ?? name);
    else if (name === 'fields') {
      fields = new Set(value.split(',').map((part) => part.trim()));
      if (fields.size > FIELDS_MAX || fields.has('')) {
        fail('invalid_value', `fields takes 1 to ${FIELDS_MAX} names, parted by commas`);
      }
    } else fail('unknown_parameter', `There is no modifier "${name}"; possible are zoom and fields`);
  }
  return { zoom, fields };
};

/** The shape that the query of a GET asks for. Throws a 400 that names everything wrong with it. */
export const shapeOf = (query: URLSearchParams, relations: Relations): Shape => {
  const faults: Fault[] = [];
  const shape = readModifiers(query, relations, faults);
  if (faults.length > 0) throw invalid(...faults);
  return shape;
};

/**
 * Reads a webhook's `zoom=…&fields=…` for a resource (`null`: a webhook that is for none yet). Throws a 400 with one entry
 * for each unknown modifier and each relation that the resource does not have, under `query`.
 */
export const readShape = (query: string, type: ResourceType | null): Shape => {
  if (query === '') return plain;
  const faults: Fault[] = [];
  const shape = readModifiers(new URLSearchParams(query), type === null ? {} : relationsOf(type), faults, 'query');
  if (faults.length > 0) throw invalid(...faults);
  return shape;
};
