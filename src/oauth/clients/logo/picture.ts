/**
 * What an uploaded picture is, told by its bytes alone: what its sender calls it decides nothing. A drawing in SVG is a
 * document that can hold scripts, so it is none of these.
 */
export type PictureType = 'image/png' | 'image/jpeg' | 'image/webp' | 'image/gif';

/** Of a side, in pixels. It also keeps text out that begins like a GIF: its letters would be sides of 8,224 and more. */
const SIDE_MAX = 4_096;

/** How each begins, in hex: PNG with its first chunk, which tells the sides; RIFF of any length with WebP inside. */
const SIGNATURES: readonly (readonly [PictureType, RegExp])[] = [
  ['image/png', /^89504e470d0a1a0a0000000d49484452/],
  ['image/jpeg', /^ffd8ff/],
  ['image/webp', /^52494646.{8}57454250565038/],
  ['image/gif', /^47494638(?:37|39)61/],
];

const HEAD_BYTES = 16;
const PNG_END = Buffer.from('0000000049454e44ae426082', 'hex');
const JPEG_END = Buffer.from('ffd9', 'hex');
const GIF_END = Buffer.from(';');

const isSide = (pixels: number): boolean => pixels >= 1 && pixels <= SIDE_MAX;
const endsWith = (bytes: Buffer, end: Buffer): boolean => bytes.subarray(-end.length).equals(end);

/** Whether the format's own account of it fits: nothing may follow the picture, where archives and pages like to hide. */
const isWhole: Readonly<Record<PictureType, (bytes: Buffer) => boolean>> = {
  'image/png': (bytes) =>
    bytes.length > 24 && isSide(bytes.readUInt32BE(16)) && isSide(bytes.readUInt32BE(20)) && endsWith(bytes, PNG_END),
  'image/jpeg': (bytes) => endsWith(bytes, JPEG_END),
  'image/webp': (bytes) => bytes.readUInt32LE(4) + 8 === bytes.length,
  'image/gif': (bytes) =>
    bytes.length > 13 && isSide(bytes.readUInt16LE(6)) && isSide(bytes.readUInt16LE(8)) && endsWith(bytes, GIF_END),
};

/** The media type; undefined where it is no picture of a kind that is served here, or more than a picture. */
export const pictureType = (bytes: Buffer): PictureType | undefined => {
  const head = bytes.subarray(0, HEAD_BYTES).toString('hex');
  const [type] = SIGNATURES.find(([, signature]) => signature.test(head)) ?? [];
  return type !== undefined && isWhole[type](bytes) ? type : undefined;
};
