/** `zoom=items,items:item_options,customer`: which relations are embedded, as a tree. */
import type { Fault } from '#core/problem.ts';

/** Name → the relations below it. */
export type Relations = { readonly [name: string]: Relations };

const ZOOM_DEPTH = 4;
const ZOOM_PATHS = 50;

/** Adds what is wrong to `faults`, one for each path that does not exist, and leaves those out. */
export const readZoom = (text: string, known: Relations, faults: Fault[], field: string): Relations => {
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
    let at = known;
    let branch = tree;
    for (const name of path) {
      const below = Object.hasOwn(at, name) ? at[name] : undefined;
      if (below === undefined) {
        const possible = Object.keys(at).join(', ') || 'none';
        const message = `zoom: there is no relation "${name}" in "${path.join(':')}"; possible: ${possible}`;
        faults.push({ code: 'unknown_relation', message, field });
        break;
      }
      at = below;
      branch = branch[name] ??= {};
    }
  }
  return tree;
};
