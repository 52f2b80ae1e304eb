/** Comments: their first words (vocabulary: "the noun itself instead of a pronoun"), sections, and names of files. */
import type { Fault, File } from './tree.ts';

/** A block, or the lines of one `//` comment. */
const COMMENT = /\/\*\*?([^]*?)\*\/|(?:(?<=\n|^)[^\S\n]*\/\/ .*(?:\n|$))+/g;

/** Says when something happens or is undefined, as a callback or an optional member is usually documented. */
const USUAL = 'Called|Undefined|Allocated|Named';
const PREPOSITION =
  'here|by|as|at|from|under|before|after|to|with|in|first|when|while|above|only|like|once|if|since|into|on|again|for|because|also|alone|separately';

const ELLIPTIC = new RegExp(
  [
    '^Of (?!two|three|\\d)[a-z]',
    '^(?:Not|Neither|Those|Such|Its|Which) [a-z]',
    `^(?!(?:${USUAL})\\b)(?:Read|Written|Shown|Set|Made|Bound|Kept|Thrown|Sent|Held|Taken|[A-Z][a-z]+ed) (?:${PREPOSITION})\\b`,
  ].join('|'),
);

type Comment = { path: string; line: number; words: string };

function commentsOf({ path, text, code }: File): Comment[] {
  return [...text.matchAll(COMMENT)].flatMap(({ 0: whole, 1: block, index }) => {
    // In code and in strings, `//` begins no comment.
    if (code.slice(index, index + whole.length).trim() !== '') return [];
    const words = (block ?? whole.replace(/^\s*\/\/ ?/, '')).replaceAll(/\n\s*(?:\*|\/\/) ?/g, ' ').trim();
    return [{ path, line: text.slice(0, index).split('\n').length, words }];
  });
}

/** Refuses comments that begin with `Of`, `Not`, a pronoun or a participle instead of the thing. */
export function ellipticComments(files: readonly File[]): Fault[] {
  return files
    .filter(({ isTest }) => !isTest)
    .flatMap(commentsOf)
    .filter(({ words }) => ELLIPTIC.test(words))
    .map(({ path, line, words }) => `${path}:${line} begins without its noun: ${words.slice(0, 60)}`);
}

/** Lines of `//` between two empty lines, at the beginning of a line. */
const SECTION = /(?<=\n\n)(?:\/\/.*\n)+(?=\n)/g;

/** Refuses a file with one section: the comment does not say where it ends, so the rest of the file seems to belong to it. */
export function singleSections(files: readonly File[]): Fault[] {
  return files.flatMap(({ path, text, code }) => {
    const sections = [...text.matchAll(SECTION)].filter(
      ({ 0: whole, index }) => code.slice(index, index + whole.length).trim() === '',
    );
    return sections.length === 1 ? [`${path} has one section only: ${sections[0]?.[0].slice(0, 60).trim()}`] : [];
  });
}

const FILE_NAME = /(?<![\w./-])(?:[\w-]+\/)*[\w-]+(?:\.test)?\.ts(?!\w)/g;

/** Refuses comments of src/ that name a file which does not exist, by its name or the end of its path. */
export function namesOfMissingFiles(files: readonly File[]): Fault[] {
  const ends = new Set(files.flatMap(({ path }) => path.split('/').map((_, at, parts) => parts.slice(at).join('/'))));
  return files
    .filter(({ path, isTest }) => path.startsWith('src/') && !isTest)
    .flatMap(commentsOf)
    .flatMap(({ path, line, words }) =>
      [...words.matchAll(FILE_NAME)]
        .filter(([name]) => !ends.has(name))
        .map(([name]) => `${path}:${line} names ${name}, which does not exist`),
    );
}
