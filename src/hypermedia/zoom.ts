/** Parses `zoom=items,items:item_options,customer` to a tree of relations to embed. */
import type { Fault } from '#core/problem.ts';

/** The relations below each name. */
export type Relations = { readonly [name: string]: Relations };

export const ZOOM_DEPTH = 4;
export const ZOOM_PATHS = 50;

/** Returns the tree of existing relations; adds a fault for each unknown path. */
export function readZoom(text: string, known: Relations, faults: Fault[], field: string): Relations {
  type Tree = { [name: string]: Tree };
  const tree: Tree = {};
  const paths = text.split(',').map((path) => path.trim().split(':'));
  if (paths.length > ZOOM_PATHS || paths.some((path) => path.length > ZOOM_DEPTH)) {
    faults.push({
      code: 'too_many',
      message: `zoom takes at most ${ZOOM_PATHS} paths of ${ZOOM_DEPTH} relations`,
      field,
    });
    return tree;
  }
  for (const path of paths) {
    let level = known;
    let branch = tree;
    for (const name of path) {
      const child = Object.hasOwn(level, name) ? level[name] : undefined;
      if (child === undefined) {
        const possible = Object.keys(level).join(', ') || 'none';
        const message = `zoom: there is no relation "${name}" in "${path.join(':')}"; possible: ${possible}`;
        faults.push({ code: 'unknown_relation', message, field });
        break;
      }
      level = child;
      branch = branch[name] ??= {};
    }
  }
  return tree;
}
