/** The operator's brand on pages and in mails: the checks of its settings. */
import { createHash } from 'node:crypto';
import { ConfigError } from '#core/config-error.ts';
import { readFileOf } from './env.ts';

/** The least contrast of text (WCAG 2.2, 1.4.3). */
export const TEXT_CONTRAST = 4.5;

type Channels = readonly [red: number, green: number, blue: number];

const channelAt = (color: string, start: number): number => Number.parseInt(color.slice(start, start + 2), 16);
const channelsOf = (color: string): Channels => [channelAt(color, 1), channelAt(color, 3), channelAt(color, 5)];

function linear(channel: number): number {
  const share = channel / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

function luminance(color: string): number {
  const [red, green, blue] = channelsOf(color);
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

/** Returns the contrast of two colours `#rrggbb` (WCAG 2.2, "contrast ratio"): 1 for the same colour, 21 for black and white. */
export function contrastOf(one: string, other: string): number {
  const [a, b] = [luminance(one), luminance(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** Returns the least contrast of a colour with several. */
export function leastContrast(color: string, others: readonly string[]): number {
  return Math.min(...others.map((other) => contrastOf(color, other)));
}

const STEPS = 100;

function mixed(color: string, target: '#000000' | '#ffffff', share: number): string {
  // Black and white have the same value in all channels.
  const [to] = channelsOf(target);
  const parts = channelsOf(color).map((value) => Math.round(value + (to - value) * share));
  return `#${parts.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}

/** Returns the nearest colour with enough contrast with `papers`: the colour with as little of `target` (black or white) as suffices. */
function withContrast(color: string, target: '#000000' | '#ffffff', papers: readonly string[]): string {
  for (let step = 0; step < STEPS; step += 1) {
    const candidate = mixed(color, target, step / STEPS);
    if (leastContrast(candidate, papers) >= TEXT_CONTRAST) return candidate;
  }
  return target;
}

/** What the accent colour is on, in hypermedia/style.ts: cards and paper behind links, and the text on buttons in light mode. */
export const PAPERS = { light: ['#ffffff', '#f4f6f8'], dark: ['#1a2029', '#11151b'] } as const;

export type Accent = { light: string; dark: string };

const NAME_CHARACTERS_MAX = 40;

/** Returns the name; throws a `ConfigError` if it has control characters or is too long for the header of a phone. */
export function brandName(written: string, name: string): string {
  const value = written.trim();
  if (value !== '' && value.length <= NAME_CHARACTERS_MAX && !/[\p{C}\p{Zl}\p{Zp}]/u.test(value)) return value;
  throw new ConfigError(`${name}: set it to 1 to ${NAME_CHARACTERS_MAX} characters in one line`);
}

/**
 * Returns the accent colour for light mode, and a lighter one for dark mode if necessary. Throws a `ConfigError` with the nearest
 * possible colour if links in the colour, or white text on it, would be hard to read.
 */
export function brandColor(written: string, name: string): Accent {
  const value = written.toLowerCase();
  if (!/^#[0-9a-f]{6}$/.test(value)) throw new ConfigError(`${name} is "${value}": set it to a colour such as #0b5fb0`);
  const contrast = leastContrast(value, PAPERS.light);
  if (contrast < TEXT_CONTRAST) {
    const nearest = withContrast(value, '#000000', PAPERS.light);
    throw new ConfigError(
      `${name} is "${value}", whose contrast is only ${contrast.toFixed(1)} on the paper of the pages, and ${contrastOf(value, '#ffffff').toFixed(1)} with the white text of buttons; ${TEXT_CONTRAST} is needed. Set it to a darker colour: ${nearest} is the nearest`,
    );
  }
  return { light: value, dark: withContrast(value, '#ffffff', PAPERS.dark) };
}

export type Logo = { file: string; mediaType: string; body: Buffer };

const LOGO_BYTES_MAX = 64 * 1024;
const HASH_CHARACTERS = 16;
/** Signatures in hex. No SVG, which may contain scripts and addresses of others. */
const PICTURES = [
  ['png', 'image/png', /^89504e470d0a1a0a/],
  ['jpg', 'image/jpeg', /^ffd8ff/],
  ['webp', 'image/webp', /^52494646.{8}57454250/],
] as const;

/** Reads the logo; throws a `ConfigError` if it cannot be read, is too large or no picture. */
export function readLogo(path: string | undefined, cwd: string): Logo | undefined {
  if (path === undefined) return undefined;
  const refuse = (why: string): never => {
    throw new ConfigError(`BRAND_LOGO is "${path}": ${why}`);
  };
  const body = readFileOf('BRAND_LOGO', path, LOGO_BYTES_MAX, cwd);
  const start = body.subarray(0, 16).toString('hex');
  const [ending, mediaType] =
    PICTURES.find(([, , signature]) => signature.test(start)) ?? refuse('set it to a PNG, JPEG or WebP');
  const hash = createHash('sha256').update(body).digest('hex').slice(0, HASH_CHARACTERS);
  return { file: `${hash}.${ending}`, mediaType, body };
}
