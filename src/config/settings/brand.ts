/** The name, logo and colour of the operator on pages and in mails. */
import { brandColor, brandName, type Accent } from '../brand.ts';
import { unvalidatedText, type Setting } from './kind.ts';

const DEFAULT_NAME = 'Halcyon';

const name: Setting<string> = {
  defaultText: `\`${DEFAULT_NAME}\``,
  allowed: '1 to 40 characters',
  meaning: 'the name on all pages, also on those for signing in and for approving apps, and of the sender of mails',
  read: (env, variable) => brandName(env, variable, DEFAULT_NAME),
};

const color: Setting<Accent | undefined> = {
  defaultText: 'blue',
  allowed: '`#rrggbb`',
  meaning:
    'the colour of links and buttons. Its contrast with white and with the paper of the pages must be at least 4.5; the error names the nearest possible colour. In dark mode a lighter one is used if necessary',
  read: brandColor,
};

export const BRAND = {
  BRAND_NAME: name,
  BRAND_LOGO: unvalidatedText(
    '–',
    'a path',
    'a PNG, JPEG or WebP of at most 64 KiB, shown 32 pixels high before the name. It is a file and not an address, because Halcyon serves it itself: no other server learns who signs in, or can change what the consent page shows',
  ),
  BRAND_COLOR: color,
};
