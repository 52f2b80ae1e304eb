/** Examples as the real renderers write them. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { formats } from '#hypermedia/render.ts';

export type Written = { mediaType: string; text: string };

const indented = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return indentedMarkup(text);
  }
};

/** A line for each element, each level two blanks further in. */
const indentedMarkup = (text: string): string => {
  let depth = 0;
  return text
    .replaceAll(/>\s*</g, '>\n<')
    .split('\n')
    .map((line) => {
      if (line.startsWith('</')) depth -= 1;
      const written = '  '.repeat(Math.max(0, depth)) + line;
      const opens = /^<[^/?!]/.test(line) && !line.endsWith('/>') && !line.includes('</');
      if (opens) depth += 1;
      return written;
    })
    .join('\n');
};

/** One for each format that programs read, laid out for people. */
export const writtenExamples = (document: Document, naming: Naming): Written[] =>
  formats
    .filter(({ isPage }) => isPage !== true)
    .map(({ mediaTypes: [mediaType], render }) => ({ mediaType, text: indented(render(document, naming)) }));
