/**
 * Determines the type of an uploaded picture by its bytes; the declared type is ignored. SVG is not accepted, because an SVG
 * document can contain scripts.
 */
import { gifSides, jpegSides, pngSides, webpSides, type Sides } from './sides.ts';

export type PictureType = 'image/png' | 'image/jpeg' | 'image/webp' | 'image/gif';

/** Pixels per side: a browser needs 64 MiB to show a picture of this size. */
const SIDE_MAX = 4_096;

/** Type, signature in hex, and parser of each format. PNG includes the first chunk; WebP is a RIFF file of any length. */
const FORMATS: readonly (readonly [PictureType, RegExp, (bytes: Buffer) => Sides | null])[] = [
  ['image/png', /^89504e470d0a1a0a0000000d49484452/, pngSides],
  ['image/jpeg', /^ffd8ff/, jpegSides],
  ['image/webp', /^52494646.{8}57454250565038/, webpSides],
  ['image/gif', /^47494638(?:37|39)61/, gifSides],
];

const HEAD_BYTES = 16;

function walked(walk: (bytes: Buffer) => Sides | null, bytes: Buffer): Sides | null {
  try {
    return walk(bytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return null;
  }
}

/** Returns the media type, or a fault that continues the sentence "The picture …". */
export function inspectPicture(bytes: Buffer): { mediaType: PictureType } | { fault: string } {
  const head = bytes.subarray(0, HEAD_BYTES).toString('hex');
  const [mediaType, , walk] = FORMATS.find(([, signature]) => signature.test(head)) ?? [];
  if (mediaType === undefined || walk === undefined) return { fault: 'must be a PNG, JPEG, WebP or GIF' };
  const sides = walked(walk, bytes);
  // Trailing data may be an archive or a page in disguise; some cameras append a second picture.
  if (sides === null)
    return { fault: 'is damaged, or has data after its end: open it in an image editor and save it again' };
  const fits = sides.every((pixels) => pixels >= 1 && pixels <= SIDE_MAX);
  return fits ? { mediaType } : { fault: `must be at most ${SIDE_MAX} pixels per side` };
}
