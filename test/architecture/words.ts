/** Words that belong to one place: `process`, and the names of formats. */
import type { Fault, File } from './tree.ts';

const MAIN = 'src/main.ts';
/**
 * The embedded PostgreSQL is a child process with a user, binaries a platform and a pid of its own. What it asks of
 * `process` is neither configuration nor output, and handing it in would not make it more testable.
 */
const EMBEDDED_MEMBERS = new Set(['getuid', 'kill', 'pid', 'platform', 'arch']);

const PROCESS = /(?<![\w$.])(?:globalThis\s*\.\s*)?process\b(?:\s*\??\.\s*(\w+))?/g;

/** argv, environment, streams, signals and the exit are main.ts's; everybody else is told. */
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

/** As a word or as a part of camelCase; not in Halcyon, nor in the `hal_at_` that its tokens begin with. */
const FORMAT =
  /(?<![A-Za-z])hal(?![a-z]|_[a-z]{2}_)|Hal(?![a-z])|(?<![A-Z])HAL(?![A-Z])|[Ss]iren|SIREN|(?<![A-Za-z])xml(?![a-z])|Xml(?![a-z])|XML/g;

const FORMATS_LIVE_IN = /^src\/hypermedia\/|^src\/http\/negotiate\.ts$/;

/** What comes in has a media type, and a webhook's body is HAL whatever anybody accepts. */
export const NAMES_A_FORMAT: Readonly<Record<string, string>> = {
  'src/http/bodies/body.ts': 'names the media types that a body may come in',
  'src/http/bodies/xml-body.ts': 'reads a body in one of them',
  'src/delivery/attempt/request.ts': 'renders what is sent',
  'src/delivery/attempt/formats/formats.ts': 'names the content types of what is sent',
};

const formatsIn = (file: File): string[] => [...file.code.matchAll(FORMAT)].map(([word]) => word);

/** Describe once, render in every format: a module that knows a format would describe it twice. */
export function formatNames(files: readonly File[]): Fault[] {
  return files
    .filter(({ path, isTest }) => !isTest && !FORMATS_LIVE_IN.test(path) && NAMES_A_FORMAT[path] === undefined)
    .flatMap((file) => [...new Set(formatsIn(file))].map((word) => `${file.path} names the format ${word}`));
}

/** Exceptions that nothing needs any more. */
export function idleExceptions(files: readonly File[]): Fault[] {
  return Object.keys(NAMES_A_FORMAT).filter((path) => {
    const file = files.find((candidate) => candidate.path === path);
    return file === undefined || formatsIn(file).length === 0;
  });
}
