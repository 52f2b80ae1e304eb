/** The frame of every page: head, header, main, and its scripts. Works without JavaScript, in light and dark mode, and on phones. */
import { createHash } from 'node:crypto';
import { constant, html, render, type Markup } from './markup.ts';
import { style } from './style.ts';
import { readFileSync } from 'node:fs';

/**
 * The operator's brand: one per process, set when the process starts. It is not passed as an argument, because every page has it, also
 * those of errors, and no function decides by it.
 */
type Brand = {
  name: string;
  /** The path of the logo. */
  logoPath?: string | undefined;
  /** The accent colours in light and dark mode, as `#rrggbb`. */
  accent?: { light: string; dark: string } | undefined;
};

/** Returns the style rules of the accent colour, which follow those of the style sheet. */
function accentRules({ accent }: Brand): string {
  if (accent === undefined) return '';
  const { light, dark } = accent;
  return `:root{--accent:${light}}\n@media (prefers-color-scheme:dark){:root{--accent:${dark}}}\n`;
}

type Frame = { name: string; mark: Markup; styleElement: Markup; styleHash: string };

function frameOf(brand: Brand): Frame {
  const { name, logoPath } = brand;
  const css = style + accentRules(brand);
  const isPlain = logoPath === undefined;
  return {
    name,
    mark: isPlain
      ? html`<span class="brand drop">${name}</span>`
      : html`<span class="brand"><img src="${logoPath}" alt="" height="32" />${name}</span>`,
    styleElement: constant(`<style>${css}</style>`),
    styleHash: `'sha256-${createHash('sha256').update(css).digest('base64')}'`,
  };
}

let frame = frameOf({ name: 'Halcyon' });

/** Sets the brand of all pages that are rendered from now on. */
export function setBrand(brand: Brand): void {
  frame = frameOf(brand);
}

/** Returns the hash of the style sheet for the Content-Security-Policy, which permits no other style. */
export function styleHash(): string {
  return frame.styleHash;
}

/**
 * Renders a page. `aside` (the signed-in user) or `nav` (navigation) is on the right of the header. `wide` is for pages
 * with tables: 66rem instead of 32rem. `footer` is a whole element. Pages on which people choose passwords or approve apps have no
 * scripts: their headers forbid them, too.
 */
export function shell(page: {
  title: string;
  main: Markup;
  aside?: Markup;
  nav?: Markup;
  footer?: Markup;
  wide?: boolean;
  scripts?: Markup;
}): string {
  return render(
    html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="color-scheme" content="light dark" />
          <title>${page.title} · ${frame.name}</title>
          ${frame.styleElement}${page.scripts}
        </head>
        <body ${page.wide === true && html`class="wide"`}>
          <a class="skip" href="#main">Skip to content</a>
          <header>${frame.mark}${page.aside}${page.nav}</header>
          <main id="main" tabindex="-1">${page.main}</main>
          ${page.footer}
        </body>
      </html>`,
  );
}

/**
 * A script of pages: our own, GitHub's `relative-time` element or the library of passkeys, each served as it is at an address with its
 * hash. GitHub's `clipboard-copy` element is not used, because it replaces no-break spaces and removes zero-width characters: a copied
 * request would differ from the one that was sent and signed.
 */
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

/**
 * Returns the attribute of the parts of a page that its script reads again: when the stream at this address says so, or after these
 * seconds.
 */
export function liveAttribute(source: string | number | undefined): Markup | false {
  return source !== undefined && html`data-live="${source}"`;
}

/** The logo of every page, as an SVG image. */
export const icon = {
  mediaType: 'image/svg+xml',
  body: '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#0b5fb0" d="M1 8a7 7 0 1 1 7 7H1z"/></svg>',
};
