/**
 * The icons of states and of main actions: a few of GitHub's Octicons, whose paths become rules of the style sheet. They have the
 * colour of their text and repeat its words, so they need no markup, no label and no request.
 */
import { readFileSync } from 'node:fs';

const FOLDER = new URL('build/svg/', import.meta.resolve('@primer/octicons'));

/** The selector of the element that begins with the icon, and the name of the icon. */
const ICONS: readonly (readonly [selector: string, icon: string])[] = [
  ['.badge', 'clock-fill-16'],
  ['.badge.fine', 'check-circle-fill-16'],
  ['.badge.broken', 'x-circle-fill-16'],
  ['.badge.plain', 'dot-fill-16'],
  ['.copy', 'copy-16'],
  ['.sign-in', 'sign-in-16'],
  ['.read', 'book-16'],
  ['.health', 'pulse-16'],
];

/** Returns the outline of an icon of 16 px. Throws if the package draws it in another way than by paths alone. */
function outlineOf(icon: string): string {
  const svg = readFileSync(new URL(`${icon}.svg`, FOLDER), 'utf8');
  const paths = [...svg.matchAll(/<path d="([\w\s.,-]+)"\/>/g)].map(([, path = '']) => path);
  const drawn = paths.map((path) => `<path d="${path}"/>`).join('');
  if (paths.length === 0 || !svg.includes(`viewBox="0 0 16 16">${drawn}</svg>`))
    throw new TypeError(`The icon ${icon} is not one of paths in 16 px`);
  return paths.join('');
}

const before = ICONS.map(([selector]) => `${selector}::before`).join(',');

/** The rules of the icons. */
export const iconRules = `${before}{content:"";flex:none;width:16px;height:16px;background:currentColor}
${ICONS.map(([selector, icon]) => `${selector}::before{clip-path:path("${outlineOf(icon)}")}`).join('\n')}
@media (forced-colors:active){${before}{background:CanvasText}}
`;
