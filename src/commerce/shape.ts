/** How a representation is asked for: the modifiers of a webhook's `query` and of a GET are the same words. */
import { readZoom, type Relations } from '#hypermedia/zoom.ts';
import { invalid, type Fault } from '#kernel/problem.ts';
import { relationsOf, type ResourceType } from './catalogue.ts';

export type Shape = { zoom: Relations; fields: ReadonlySet<string> | null };

/** The whole resource, nothing embedded. */
const plain: Shape = { zoom: {}, fields: null };

const FIELDS_MAX = 100;

/**
 * Reads `zoom=…&fields=…` for a resource (`null`: a webhook that is for none yet). Throws a 400 with one entry for each
 * unknown modifier and each relation that the resource does not have, under `field`.
 */
export const readShape = (query: string, type: ResourceType | null, field = 'query'): Shape => {
  if (query === '') return plain;
  const faults: Fault[] = [];
  let zoom: Relations = {};
  let fields: Set<string> | null = null;
  const parameters = new URLSearchParams(query);
  for (const [name, value] of parameters) {
    if (parameters.getAll(name).length > 1) {
      faults.push({ code: 'duplicate_parameter', message: `${name} is given twice`, field });
    } else if (name === 'zoom') {
      zoom = readZoom(value, type === null ? {} : relationsOf(type), faults, field);
    } else if (name === 'fields') {
      fields = new Set(value.split(',').map((part) => part.trim()));
      if (fields.size > FIELDS_MAX || fields.has('')) {
        faults.push({
          code: 'invalid_value',
          message: `fields takes 1 to ${FIELDS_MAX} names, parted by commas`,
          field,
        });
      }
    } else {
      const message = `There is no modifier "${name}"; possible are zoom and fields`;
      faults.push({ code: 'unknown_parameter', message, field });
    }
  }
  if (faults.length > 0) throw invalid(...faults);
  return { zoom, fields };
};
