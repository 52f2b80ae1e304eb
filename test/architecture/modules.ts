/** Which module may import which, and by which name: "Modules" in ARCHITECTURE.md, executed. */
import { dirname } from 'node:path';
import { moduleOf, type Fault, type File, type Import } from './tree.ts';

const ALL = 'all';
const BASE = ['core', 'db', 'hypermedia', 'http', 'runtime'];

const MAY_IMPORT: Readonly<Record<string, readonly string[] | typeof ALL>> = {
  core: [],
  config: ['core'],
  // Types alone.
  runtime: ['core', 'config', 'db', 'mail'],
  receiver: [],
  publisher: [],
  db: ['core'],
  shards: ['core', 'db', 'metrics'],
  hypermedia: ['core'],
  mail: ['core'],
  metrics: ['core', 'db'],
  http: ['core', 'db', 'hypermedia'],
  reference: ['core', 'hypermedia', 'http'],
  catalog: BASE,
  events: [...BASE, 'catalog'],
  // An entry is an event whose body is a representation.
  changelog: ['core', 'db', 'hypermedia', 'events'],
  operator: [
    ...BASE,
    'metrics',
    'catalog',
    'identity/accounts',
    'identity/oauth',
    'stores',
    'webhooks',
    'delivery',
    'changelog',
    'dashboard',
  ],
  dashboard: [...BASE, 'catalog', 'events', 'stores', 'identity/oauth', 'webhooks'],
  stores: [...BASE, 'changelog'],
  'identity/accounts': [...BASE, 'changelog', 'mail'],
  'identity/oauth': [...BASE, 'catalog', 'changelog', 'identity/accounts', 'shards', 'stores'],
  'identity/invitations': [...BASE, 'changelog', 'mail', 'identity/accounts', 'stores'],
  'identity/portal': [...BASE, 'changelog', 'identity/accounts', 'stores'],
  mcp: ['core', 'hypermedia', 'http'],
  webhooks: [...BASE, 'catalog', 'events', 'changelog', 'mail', 'shards'],
  delivery: ['core', 'db', 'hypermedia', 'runtime', 'metrics', 'catalog', 'changelog', 'publisher'],
  server: ALL,
  cli: ALL,
  main: ALL,
};
/** Only these import the composition of a process, and only these read the environment. */
const IMPORTS_SERVER = new Set(['server', 'cli', 'main']);
const READS_ENVIRONMENT = /^src\/config\/|^src\/cli\//;
/** Shared by all tests, including those beside the code. */
const TEST_SETUP = /^test\/setup\//;

function refusal(file: File, { specifier, target }: Import): string | undefined {
  if (specifier === 'import()') return 'imports a computed specifier, which no rule can check';
  if (target === undefined || (file.isTest && TEST_SETUP.test(target))) return undefined;
  const from = moduleOf(file.path) ?? '';
  const to = moduleOf(target);
  if (to === undefined) return `imports ${target}, which is outside of src`;
  if (from === to) return undefined;
  const allowed = MAY_IMPORT[from];
  const isAllowed = to === 'server' ? IMPORTS_SERVER.has(from) : allowed === ALL || allowed?.includes(to);
  if (isAllowed === true && (target !== 'src/config/env.ts' || READS_ENVIRONMENT.test(file.path))) return undefined;
  return `may not import ${to}: it imports ${specifier}`;
}

/** Refuses an import that the table does not allow, and a file of an unknown module. */
export function forbiddenImports(files: readonly File[]): Fault[] {
  return files.flatMap((file) => {
    const module = moduleOf(file.path);
    if (module === undefined || MAY_IMPORT[module] === undefined) return [`${file.path} is in no module of the table`];
    return file.imports.flatMap((found) => {
      const reason = refusal(file, found);
      return reason === undefined ? [] : [`${file.path} ${reason}`];
    });
  });
}

/** `./x.ts` and `../x.ts` stay inside a module; an import of another module is `#module/x.ts`. */
export function misnamedImports(files: readonly File[]): Fault[] {
  return files.flatMap((file) =>
    file.imports.flatMap(({ specifier, target }) => {
      if (target === undefined || (file.isTest && TEST_SETUP.test(target))) return [];
      const staysInside = moduleOf(file.path) === moduleOf(target);
      if (staysInside === specifier.startsWith('.')) return [];
      return [
        `${file.path} imports ${specifier}: ${staysInside ? 'inside a module write ./' : `write #${target.slice(4)}`}`,
      ];
    }),
  );
}

/**
 * Refuses cycles of files, each listed once from its first file. Type-only imports are left out: they are erased before the file
 * runs, so two types that refer to each other load in any order.
 */
export function cycles(files: readonly File[]): Fault[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const done = new Set<string>();
  const found = new Set<string>();
  const visit = (path: string, way: readonly string[]): void => {
    const start = way.indexOf(path);
    if (start !== -1) {
      const cycle = way.slice(start);
      const first = cycle.indexOf(cycle.toSorted()[0] ?? path);
      found.add([...cycle.slice(first), ...cycle.slice(0, first), cycle[first]].join(' → '));
      return;
    }
    if (done.has(path)) return;
    for (const { target, isTypeOnly } of byPath.get(path)?.imports ?? [])
      if (target !== undefined && !isTypeOnly) visit(target, [...way, path]);
    done.add(path);
  };
  for (const { path } of files) visit(path, []);
  return [...found];
}

/** Returns the files and packages that are loaded with a file: those that it imports, directly or through others, but not on use. */
export function loadedWith(path: string, files: readonly File[]): Set<string> {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const loaded = new Set<string>();
  const visit = (name: string): void => {
    if (loaded.has(name)) return;
    loaded.add(name);
    for (const { specifier, target, isTypeOnly, isLazy } of byPath.get(name)?.imports ?? [])
      if (!isTypeOnly && !isLazy) visit(target ?? specifier);
  };
  visit(path);
  return loaded;
}

/** Refuses two folders of a module that import each other; files beside the folders may compose them. */
export function mutualFolders(files: readonly File[]): Fault[] {
  const folderOf = (path: string): string | undefined => /^src\/[^/]+\/[^/]+(?=\/)/.exec(path)?.[0];
  const edges = new Set(
    files
      .filter(({ isTest }) => !isTest)
      .flatMap(({ path, imports }) => imports.map(({ target }) => [folderOf(path), target && folderOf(target)]))
      .filter(([from, to]) => from !== undefined && to !== undefined && from !== to && dirname(from) === dirname(to))
      .map(([from, to]) => `${from} → ${to}`),
  );
  return [...edges].filter((edge) => {
    const [from = '', to = ''] = edge.split(' → ');
    return from < to && edges.has(`${to} → ${from}`);
  });
}

/** Returns the import graph, a line per module: how often it imports each other module. */
export function graphOf(files: readonly File[]): string[] {
  const code = files.filter(({ isTest }) => !isTest);
  const modules = [...new Set(code.map(({ path }) => moduleOf(path) ?? ''))].toSorted();
  return modules.map((module) => {
    const targets = code
      .filter(({ path }) => moduleOf(path) === module)
      .flatMap(({ imports }) => imports.flatMap(({ target }) => (target === undefined ? [] : [moduleOf(target) ?? ''])))
      .filter((target) => target !== module);
    const counts = [...Map.groupBy(targets, (target) => target)].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return `${module.padEnd(17)} → ${counts.map(([to, { length }]) => `${to} ${length}`).join(', ') || 'nothing'}`;
  });
}
