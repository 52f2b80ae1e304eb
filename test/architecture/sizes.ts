/** Small files, and names that say what is inside. */
import { roomOf, type Fault, type File } from './tree.ts';

const FILE_LINES = 200;
const TEST_FILE_LINES = 300;
const MEDIAN_LINES = 100;
/** Files that are one table or one list and would only be harder to read in two; each with its reason. None over 300. */
const LONGER: Readonly<Record<string, string>> = {};
const LONGEST_LINES = 300;

const capOf = ({ path, isTest }: File): number => {
  if (isTest || path.startsWith('test/')) return TEST_FILE_LINES;
  return LONGER[path] === undefined ? FILE_LINES : LONGEST_LINES;
};

export const tooLong = (files: readonly File[]): Fault[] =>
  files
    .filter((file) => file.lines > capOf(file))
    .map((file) => `${file.path} has ${file.lines} lines: at most ${capOf(file)}`);

const median = (lines: number[]): number => {
  const sorted = lines.toSorted((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const lower = sorted[Math.ceil(sorted.length / 2) - 1] ?? 0;
  return Math.ceil((upper + lower) / 2);
};

/** The median of the lines of a room's files (rounded up), tests left out. */
export const medianLines = (files: readonly File[]): Map<string, number> => {
  const rooms = Map.groupBy(
    files.filter(({ isTest }) => !isTest),
    ({ path }) => roomOf(path) || 'src',
  );
  return new Map([...rooms].map(([room, members]) => [room, median(members.map(({ lines }) => lines))]));
};

export const heavyRooms = (files: readonly File[]): Fault[] =>
  [...medianLines(files)]
    .filter(([, lines]) => lines >= MEDIAN_LINES)
    .map(
      ([room, lines]) => `${room}: half of its files have ${lines} lines or more, it should be under ${MEDIAN_LINES}`,
    );

const VAGUE_NAME = /(?:^|\/)(?:types|utils|helpers|index)\.ts$/;

/** Drawers that collect what nobody placed, and barrels. */
export const vagueNames = (files: readonly File[]): Fault[] =>
  files.filter(({ path }) => VAGUE_NAME.test(path)).map(({ path }) => `${path} says nothing about what is inside`);

const DEFAULT_EXPORT = /(?<![\w$.])export\s+default\b|\bas\s+default\b/;

/** A default export has another name in every file that imports it. */
export const defaultExports = (files: readonly File[]): Fault[] =>
  files.filter(({ bare }) => DEFAULT_EXPORT.test(bare)).map(({ path }) => `${path} has a default export`);
