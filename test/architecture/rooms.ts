/** Who may look into whom, and by which name: "Rooms" in ARCHITECTURE.md, executed. */
import { roomOf, type Fault, type File, type Import } from './tree.ts';

/** Everything under src, the files that stand beside the rooms included. */
const EVERYTHING = 'everything';

const MAY_LOOK_INTO: Readonly<Record<string, readonly string[] | typeof EVERYTHING>> = {
  kernel: [],
  database: ['kernel'],
  hypermedia: ['kernel'],
  // Idempotency keys are the machinery's own, and stand in the transaction of what they are about.
  http: ['kernel', 'database', 'hypermedia'],
  commerce: ['kernel', 'database', 'hypermedia', 'http'],
  events: ['kernel', 'database', 'hypermedia', 'http', 'commerce'],
  // What it writes is a representation, with dates as all have them.
  changelog: ['kernel', 'database', 'hypermedia', 'events'],
  stores: ['kernel', 'database', 'hypermedia', 'http', 'changelog'],
  mail: ['kernel'],
  accounts: ['kernel', 'database', 'hypermedia', 'http', 'changelog', 'mail'],
  oauth: ['kernel', 'database', 'hypermedia', 'http', 'changelog', 'accounts', 'stores'],
  // Whoever owns a webhook at which nothing arrives is mailed, which only who knows webhooks can word.
  webhooks: ['kernel', 'database', 'hypermedia', 'http', 'commerce', 'events', 'changelog', 'mail'],
  delivery: ['kernel', 'database', 'hypermedia', 'commerce', 'changelog'],
  metrics: ['kernel', 'database'],
  // Explains the routes and the documents of all others, which it is handed.
  reference: ['kernel', 'hypermedia', 'http'],
  // What may be set in the environment, each described once.
  settings: [],
  cli: EVERYTHING,
  // What others install, so it brings nothing with it.
  receiver: [],
};

/** Beside the rooms; only these may stand there. A room gets its settings as an argument, so it never reads config.ts. */
const TOP_LEVEL: Readonly<Record<string, readonly string[] | typeof EVERYTHING>> = {
  'src/main.ts': EVERYTHING,
  // What runs, and apart from it what answers requests.
  'src/app.ts': EVERYTHING,
  'src/rooms.ts': EVERYTHING,
  // What publishes: for the requests, for the jobs and for the commands.
  'src/publishing.ts': EVERYTHING,
  'src/delivering.ts': EVERYTHING,
  'src/version.ts': [],
  'src/routes.ts': EVERYTHING,
  // What the rooms tell of themselves, for the reference.
  'src/chapters.ts': EVERYTHING,
  // It runs what the rooms hand it, so it looks into none of them.
  'src/housekeeping.ts': ['kernel', 'database'],
  // What is seen of a process from outside.
  'src/observing.ts': EVERYTHING,
  // What may be set, and apart from it how a single value is read and refused.
  'src/config.ts': ['settings'],
  'src/delivery-config.ts': ['settings'],
  'src/env.ts': [],
};
const MAY_READ_CONFIG = /^src\/(?:main|app|rooms|publishing|delivering)\.ts$|^src\/cli\//;
const MAY_READ_ENV = /^src\/config\.ts$|^src\/settings\/|^src\/cli\//;
const MAY_READ_TOP_LEVEL = /^src\/(?:main|app|rooms|routes|delivering|observing)\.ts$|^src\/cli\//;
const READERS: Readonly<Record<string, RegExp>> = {
  'src/config.ts': MAY_READ_CONFIG,
  'src/delivery-config.ts': /^src\/(?:config|main)\.ts$/,
  'src/env.ts': MAY_READ_ENV,
};
/** Shared by all tests, those beside the code included. */
const TEST_SETUP = /^test\/setup\//;

const refusal = (file: File, { specifier, target }: Import): string | undefined => {
  if (specifier === 'import()') return 'imports something computed, which no rule can follow';
  if (target === undefined || (file.isTest && TEST_SETUP.test(target))) return undefined;
  const from = roomOf(file.path);
  const to = roomOf(target);
  if (to === undefined) return `looks out of src, into ${target}`;
  if (to === '') {
    const readers = READERS[target] ?? MAY_READ_TOP_LEVEL;
    return readers.test(file.path) ? undefined : `may not import ${target}`;
  }
  const allowed = from === '' ? TOP_LEVEL[file.path] : MAY_LOOK_INTO[from ?? ''];
  if (from === to || allowed === EVERYTHING || allowed?.includes(to)) return undefined;
  return `may not look into ${to}: it imports ${specifier}`;
};

/** Refuses an import that the table does not allow, a room it does not know and a file that stands in no room. */
export const forbiddenImports = (files: readonly File[]): Fault[] =>
  files.flatMap((file) => {
    const room = roomOf(file.path) ?? '';
    if (room === '' && TOP_LEVEL[file.path] === undefined) return [`${file.path} stands in no room`];
    if (room !== '' && MAY_LOOK_INTO[room] === undefined) return [`${file.path} stands in a room that no table knows`];
    return file.imports.flatMap((found) => {
      const reason = refusal(file, found);
      return reason === undefined ? [] : [`${file.path} ${reason}`];
    });
  });

/** `./x.ts` and `../x.ts` stay inside a room; what leads out of it is written `#room/x.ts`. */
export const misnamedImports = (files: readonly File[]): Fault[] =>
  files.flatMap((file) =>
    file.imports.flatMap(({ specifier, target }) => {
      if (target === undefined || (file.isTest && TEST_SETUP.test(target))) return [];
      const staysInside = roomOf(file.path) === roomOf(target);
      if (staysInside === specifier.startsWith('.')) return [];
      return [
        `${file.path} imports ${specifier}: ${staysInside ? 'inside a room write ./' : `write #${target.slice(4)}`}`,
      ];
    }),
  );

/**
 * Circles of files, each told once from its first file. Type-only imports are left out: they are erased before the file
 * runs, so two types that name each other load in any order.
 */
export const circles = (files: readonly File[]): Fault[] => {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const done = new Set<string>();
  const found = new Set<string>();
  const visit = (path: string, way: readonly string[]): void => {
    const start = way.indexOf(path);
    if (start !== -1) {
      const circle = way.slice(start);
      const first = circle.indexOf(circle.toSorted()[0] ?? path);
      found.add([...circle.slice(first), ...circle.slice(0, first), circle[first]].join(' → '));
      return;
    }
    if (done.has(path)) return;
    for (const { target, isTypeOnly } of byPath.get(path)?.imports ?? [])
      if (target !== undefined && !isTypeOnly) visit(target, [...way, path]);
    done.add(path);
  };
  for (const { path } of files) visit(path, []);
  return [...found];
};

/** The import graph as a person reads it: a line a room, with how often it imports which other room. */
export const graphOf = (files: readonly File[]): string[] => {
  const code = files.filter(({ isTest }) => !isTest);
  const rooms = [...new Set(code.map(({ path }) => roomOf(path) ?? ''))].toSorted();
  return rooms.map((room) => {
    const targets = code
      .filter(({ path }) => roomOf(path) === room)
      .flatMap(({ imports }) => imports.flatMap(({ target }) => (target === undefined ? [] : [roomOf(target)])))
      .filter((target) => target !== undefined && target !== room);
    const counts = Map.groupBy(targets, (target) => target || 'src');
    const sights = [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([to, { length }]) => `${to} ${length}`);
    return `${(room || 'src').padEnd(10)} → ${sights.join(', ') || 'nothing'}`;
  });
};
