/**
 * The statements of the source with their declared row types, as the compiler infers these. The API of TypeScript 7 is not stable yet;
 * its version is exact.
 */
import { join } from 'node:path';
import { API, TypeFlags, type Checker, type Program, type Type } from 'typescript/unstable/sync';
import type { Node, SourceFile, TaggedTemplateExpression } from 'typescript/unstable/ast';
import { isNoSubstitutionTemplateLiteral, isTaggedTemplateExpression } from 'typescript/unstable/ast/is';

export const ROOT = join(import.meta.dirname, '../..');

/**
 * A template whose rows have a declared type. `name`: file and function. `start` and `end`: positions in the file. `text`: that of a
 * template without parts.
 */
export type Site = {
  name: string;
  file: string;
  start: number;
  end: number;
  row: Type;
  text: string | undefined;
};
export type Source = { checker: Checker; program: Program; sites: Site[]; close: () => void };

/** Returns the row type of a statement; undefined for rows without a declared type, and for what is no statement. */
function rowOf(checker: Checker, type: Type | undefined): Type | undefined {
  if (type?.getSymbol()?.name !== 'Statement' || !type.isTypeReference()) return undefined;
  const [rows] = checker.getTypeArguments(type);
  const [row] = rows?.isTypeReference() === true ? checker.getTypeArguments(rows) : [];
  // Of a fragment, the rows are any objects.
  const isDeclared = row !== undefined && (row.flags & (TypeFlags.Any | TypeFlags.NonPrimitive)) === 0;
  return isDeclared && checker.typeToString(row) !== 'Record<string, unknown>' ? row : undefined;
}

function templatesIn(node: Node): TaggedTemplateExpression[] {
  const found = isTaggedTemplateExpression(node) ? [node] : [];
  node.forEachChild((child) => void found.push(...templatesIn(child)));
  return found;
}

const FUNCTION = /^(?:export )?(?:async )?(?:function|const) (\w+)/gm;

/** Has the files with statements and what they import: the compiler takes a quarter of the time that it takes for the whole tree. */
const PROJECT = join(import.meta.dirname, 'tsconfig.json');

/** Opens the project, and finds the statements in the files. */
export function openSource(files: readonly string[]): Source {
  const api = new API({ cwd: ROOT });
  const [project] = api.updateSnapshot({ openProjects: [PROJECT] }).getProjects();
  if (project === undefined) throw new Error('The compiler has opened no project');
  const { checker, program } = project;
  const sites = files.flatMap((file) => {
    const source = program.getSourceFile(join(ROOT, file)) as SourceFile;
    const nodes = templatesIn(source);
    const rows = checker.getTypeAtLocation(nodes).map((type) => rowOf(checker, type));
    return nodes.flatMap((node, at): Site[] => {
      const row = rows[at];
      if (row === undefined) return [];
      const [start, { template, end }] = [node.getStart(), node];
      const inFunction = [...source.text.slice(0, start).matchAll(FUNCTION)].at(-1)?.[1] ?? '';
      const text = isNoSubstitutionTemplateLiteral(template) ? template.text : undefined;
      return [{ name: `${file} ${inFunction}`, file, start, end, row, text }];
    });
  });
  return { checker, program, sites, close: () => api.close() };
}
