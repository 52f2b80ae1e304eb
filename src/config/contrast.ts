/** Contrast of colours (WCAG 2.2, "contrast ratio"), and the nearest colour that has enough of it. Colours are `#rrggbb`. */

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

/** Returns the contrast of two colours: 1 for the same colour, 21 for black and white. */
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

/** Mixes as little of `target` (black or white) into the colour as gives it enough contrast with `papers`. */
export function withContrast(color: string, target: '#000000' | '#ffffff', papers: readonly string[]): string {
  for (let step = 0; step < STEPS; step += 1) {
    const candidate = mixed(color, target, step / STEPS);
    if (leastContrast(candidate, papers) >= TEXT_CONTRAST) return candidate;
  }
  return target;
}
