/**
 * The scripts of pages: our own, GitHub's `relative-time` element and the library of passkeys, each served as it is at an address with
 * its hash. GitHub's `clipboard-copy` element is not used, because it replaces no-break spaces and removes zero-width characters: a
 * copied request would differ from the one that was sent and signed.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { html, type Markup } from './markup.ts';

export type Script = { file: string; body: Buffer };

const HASH_CHARACTERS = 16;

function scriptOf(url: URL): Script {
  const body = readFileSync(url);
  const hash = createHash('sha256').update(body).digest('hex').slice(0, HASH_CHARACTERS);
  return { file: `${hash}.js`, body };
}

/** In the order in which they run. The package publishes its modules, and also all of them in one file. */
const documentScripts: readonly Script[] = [
  scriptOf(new URL('bundle.js', import.meta.resolve('@github/relative-time-element'))),
  scriptOf(new URL('scripts/enhance.js', import.meta.url)),
];

/** The scripts of the pages where passkeys are used: the library in one file, as it is published, and our own. */
const passkeyScripts: readonly Script[] = [
  scriptOf(new URL('../dist/bundle/index.umd.min.js', import.meta.resolve('@simplewebauthn/browser'))),
  scriptOf(new URL('scripts/passkeys.js', import.meta.url)),
];

/** All scripts that are served. */
export const scripts: readonly Script[] = [...documentScripts, ...passkeyScripts];

type PathOf = (path: string) => string;

/**
 * Returns the elements for the head of a page. `pathOf` adds the path prefix of the API. The page is shown after they ran, so that
 * it does not move under the reader's eyes.
 */
export function scriptElements(pathOf: PathOf): Markup {
  return elementsOf(documentScripts, pathOf);
}

/** Returns the elements for the head of a page where passkeys are used. */
export function passkeyScriptElements(pathOf: PathOf): Markup {
  return elementsOf(passkeyScripts, pathOf);
}

function elementsOf(chosen: readonly Script[], pathOf: PathOf): Markup {
  return html`${chosen.map(
    ({ file }) => html`<script type="module" blocking="render" src="${pathOf(`/assets/${file}`)}"></script>`,
  )}`;
}
