/** Examples in every format for programs, rendered by the real renderers. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { formats } from '#hypermedia/render.ts';

export type RenderedExample = { mediaType: string; text: string };

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return indentedMarkup(text);
  }
}

/** Indents markup: one line per element, two blanks per level. */
function indentedMarkup(text: string): string {
  let depth = 0;
  return text
    .replaceAll(/>\s*</g, '>\n<')
    .split('\n')
    .map((line) => {
      if (line.startsWith('</')) depth -= 1;
      const indentedLine = '  '.repeat(Math.max(0, depth)) + line;
      const opens = /^<[^/?!]/.test(line) && !line.endsWith('/>') && !line.includes('</');
      if (opens) depth += 1;
      return indentedLine;
    })
    .join('\n');
}

/** Returns the example in each format for programs, indented. */
export function renderExamples(document: Document, naming: Naming): RenderedExample[] {
  return formats
    .filter(({ isPage }) => isPage !== true)
    .map(({ mediaTypes: [mediaType], render }) => ({ mediaType, text: indented(render(document, naming)) }));
}
