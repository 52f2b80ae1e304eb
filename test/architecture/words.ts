/** Words that belong to one place: `process`, the clock of the machine, and the names of formats. */
import type { Fault, File } from './tree.ts';

const MAIN = 'src/main.ts';
/**
 * The embedded PostgreSQL is a child process with a user, binaries per platform and a pid of its own. What it reads from
 * `process` is neither configuration nor output, and passing it as an argument would not make it more testable.
 */
const EMBEDDED_MEMBERS = new Set(['getuid', 'kill', 'pid', 'platform', 'arch']);

const PROCESS = /(?<![\w$.])(?:globalThis\s*\.\s*)?process\b(?:\s*\??\.\s*(\w+))?/g;

/** Only main.ts uses argv, environment, streams, signals and exit; other modules get them as arguments. */
export function processReaders(files: readonly File[]): Fault[] {
  return files
    .filter(({ path, isTest }) => path !== MAIN && !isTest)
    .flatMap((file) => {
      const isEmbedded = file.path.startsWith('src/db/');
      const read = [...file.bare.matchAll(PROCESS)]
        .map(([, member]) => member ?? '')
        .filter((member) => !(isEmbedded && EMBEDDED_MEMBERS.has(member)));
      const imported = file.imports.filter(({ specifier }) => /^(?:node:)?process$/.test(specifier));
      return [read.map((member) => `reads process.${member}`), imported.map(() => 'imports node:process')]
        .flat()
        .map((fault) => `${file.path} ${fault}`);
    });
}

const WALL_CLOCK = /(?<![\w$])(?:Date\.now\(|new Date\(\)|systemClock(?![\w$]))/g;
const CLIENT = 'a client of a server, whose dates it does not write';

/** Who may read the clock of this machine. All other dates, and so all that a statement compares, are the database's (`db/database-clock.ts`). */
export const READS_ITS_CLOCK: Readonly<Record<string, string>> = {
  'src/core/clock.ts': 'defines it',
  'src/cli/serve.ts': 'gives it to the clock that follows the database',
  'src/db/cluster.ts': 'reads the age of a process of this machine',
  'src/cli/demo.ts': 'the embedded database is on this machine',
  'src/cli/installation.ts': 'reads the age of the key file',
  'src/cli/backup/backup-command.ts': 'names files, and their date',
  'src/cli/doctor/doctor-command.ts': 'compares it with those of the databases',
  'src/cli/listen/listen-command.ts': CLIENT,
  'src/cli/publish/publish-command.ts': CLIENT,
  'src/cli/relay/relay-command.ts': CLIENT,
  'src/cli/session/api-session.ts': CLIENT,
  'src/cli/session/authorize-terminal.ts': CLIENT,
  'src/cli/session/credentials.ts': CLIENT,
  'src/cli/trigger.ts': CLIENT,
};

export function clockReaders(files: readonly File[]): Fault[] {
  return files
    .filter(({ path, isTest }) => !isTest && path.startsWith('src/') && READS_ITS_CLOCK[path] === undefined)
    .flatMap(({ path, bare }) =>
      [...bare.matchAll(WALL_CLOCK)].map(([word]) => `${path} reads the clock of the machine: ${word}`),
    );
}

/** As a word or as a part of camelCase; not in Halcyon, nor in `hal_at_`, the prefix of its tokens. */
const FORMAT =
  /(?<![A-Za-z])hal(?![a-z]|_[a-z]{2}_)|Hal(?![a-z])|(?<![A-Z])HAL(?![A-Z])|[Ss]iren|SIREN|(?<![A-Za-z])xml(?![a-z])|Xml(?![a-z])|XML/g;

const FORMATS_LIVE_IN = /^src\/hypermedia\//;

/** A request body has a media type, and a webhook's body is HAL whatever the endpoint accepts. */
export const NAMES_A_FORMAT: Readonly<Record<string, string>> = {
  'src/http/bodies/body.ts': 'names the media types of request bodies',
  'src/http/bodies/xml-body.ts': 'parses one of them',
  'src/delivery/attempt/attempt-request.ts': 'renders deliveries',
  'src/delivery/attempt/formats.ts': 'names the content types of deliveries',
};

const formatsIn = (file: File): string[] => [...file.code.matchAll(FORMAT)].map(([word]) => word);

/** Documents are described once and rendered in every format: a module that names a format would describe them twice. */
export function formatNames(files: readonly File[]): Fault[] {
  return files
    .filter(({ path, isTest }) => !isTest && !FORMATS_LIVE_IN.test(path) && NAMES_A_FORMAT[path] === undefined)
    .flatMap((file) => [...new Set(formatsIn(file))].map((word) => `${file.path} names the format ${word}`));
}

/** Returns the exceptions that are no longer needed. */
export function idleExceptions(files: readonly File[]): Fault[] {
  const isIdle = (path: string, isNeeded: (file: File) => boolean): boolean => {
    const file = files.find((candidate) => candidate.path === path);
    return file === undefined || !isNeeded(file);
  };
  return [
    ...Object.keys(NAMES_A_FORMAT).filter((path) => isIdle(path, (file) => formatsIn(file).length > 0)),
    ...Object.keys(READS_ITS_CLOCK).filter((path) => isIdle(path, ({ bare }) => bare.search(WALL_CLOCK) !== -1)),
  ];
}
