/**
 * What an uploaded picture is, told by its bytes alone: what its sender calls it decides nothing. A drawing in SVG is a
 * document that can hold scripts, so it is none of these.
 */
import { gifSides, jpegSides, pngSides, webpSides, type Sides } from './sides.ts';

export type PictureType = 'image/png' | 'image/jpeg' | 'image/webp' | 'image/gif';

/** Of a side, in pixels: to show so many, a browser needs 64 MiB. */
const SIDE_MAX = 4_096;

/** How each begins, in hex, and how it is walked: PNG with its first chunk; RIFF of any length with WebP inside. */
const FORMATS: readonly (readonly [PictureType, RegExp, (bytes: Buffer) => Sides | null])[] = [
  ['image/png', /^89504e470d0a1a0a0000000d49484452/, pngSides],
  ['image/jpeg', /^ffd8ff/, jpegSides],
  ['image/webp', /^52494646.{8}57454250565038/, webpSides],
  ['image/gif', /^47494638(?:37|39)61/, gifSides],
];

const HEAD_BYTES = 16;

const walked = (walk: (bytes: Buffer) => Sides | null, bytes: Buffer): Sides | null => {
  try {
    return walk(bytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return null;
  }
};

/** The media type, or what is wrong with it, to go on after "The picture". */
export const judgePicture = (bytes: Buffer): { mediaType: PictureType } | { fault: string } => {
  const head = bytes.subarray(0, HEAD_BYTES).toString('hex');
  const [mediaType, , walk] = FORMATS.find(([, signature]) => signature.test(head)) ?? [];
  if (mediaType === undefined || walk === undefined) return { fault: 'must be a PNG, JPEG, WebP or GIF' };
  const sides = walked(walk, bytes);
  // Behind the end archives and pages like to hide, and cameras put a second picture.
  if (sides === null)
    return { fault: 'is damaged, or something follows its end: open it in a program for pictures and save it anew' };
  const fits = sides.every((pixels) => pixels >= 1 && pixels <= SIDE_MAX);
  return fits ? { mediaType } : { fault: `must be at most ${SIDE_MAX} pixels a side` };
};
