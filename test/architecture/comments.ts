/** Comments whose first words lack their noun (vocabulary: "the noun itself instead of a pronoun"). */
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

/** Refuses comments that begin with `Of`, `Not`, a pronoun or a participle instead of the thing. */
export function ellipticComments(files: readonly File[]): Fault[] {
  return files
    .filter(({ isTest }) => !isTest)
    .flatMap(({ path, text, code }) =>
      [...text.matchAll(COMMENT)].flatMap(({ 0: whole, 1: block, index }) => {
        // In code and in strings, `//` begins no comment.
        if (code.slice(index, index + whole.length).trim() !== '') return [];
        const words = (block ?? whole.replace(/^\s*\/\/ ?/, '')).replaceAll(/\n\s*(?:\*|\/\/) ?/g, ' ').trim();
        const line = text.slice(0, index).split('\n').length;
        return ELLIPTIC.test(words) ? [`${path}:${line} begins without its noun: ${words.slice(0, 60)}`] : [];
      }),
    );
}
