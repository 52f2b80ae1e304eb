/** The frame of every page: head, header, main. Works without JavaScript, in light and dark mode, and on phones. */
import { createHash } from 'node:crypto';
import { constant, html, render, type Markup } from './markup.ts';
import { style } from './style.ts';

/** The hash of the style sheet for the Content-Security-Policy, which permits no other style. */
export const styleHash = `'sha256-${createHash('sha256').update(style).digest('base64')}'`;

const styleElement = constant(`<style>${style}</style>`);

/**
 * Renders a page. `aside` (the signed-in user) or `nav` (navigation) is on the right of the header. `wide` is for pages
 * with tables: 66rem instead of 32rem. `footer` is a whole element.
 */
export function shell(page: {
  title: string;
  main: Markup;
  aside?: Markup;
  nav?: Markup;
  footer?: Markup;
  wide?: boolean;
}): string {
  return render(
    html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="color-scheme" content="light dark" />
          <title>${page.title} · Halcyon</title>
          ${styleElement}
        </head>
        <body ${page.wide === true && html`class="wide"`}>
          <a class="skip" href="#main">Skip to content</a>
          <header><span class="brand">Halcyon</span>${page.aside}${page.nav}</header>
          <main id="main" tabindex="-1">${page.main}</main>
          ${page.footer}
        </body>
      </html>`,
  );
}
