/** Stores and serves the logos of apps. Logos are uploaded and validated by their bytes; none is fetched from a URL. */
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { RawHandler } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { notFound, type Fault } from '#core/problem.ts';
import { isClientId } from '../protocol-requests.ts';
import { type ClientActor, recordClientEntry } from './clients.ts';
import { deleteLogo, findLogo, touchClient, upsertLogo, type Client } from './clients-sql.ts';

/**
 * Determines the pixel dimensions of a picture by parsing all blocks of its file. Returns null if the file is truncated, has
 * a block of unknown type or data after its end; reads beyond the end throw a RangeError. The content of blocks (comments,
 * pixels) is not examined.
 */
type Sides = readonly [width: number, height: number];
type Walk = (bytes: Buffer) => Sides | null;

const largest = (all: readonly Sides[]): Sides | null =>
  all.length === 0 ? null : [Math.max(...all.map(([width]) => width)), Math.max(...all.map(([, height]) => height))];

/** Parses PNG: chunks of length, type, data and checksum, from IHDR to an empty IEND (PNG, third edition, §5.3). */
const pngSides: Walk = (bytes) => {
  for (let at = 8; at < bytes.length;) {
    const length = bytes.readUInt32BE(at);
    const type = bytes.toString('latin1', at + 4, at + 8);
    at += length + 12;
    if (!/^[A-Za-z]{4}$/.test(type) || at > bytes.length || (type === 'IHDR' && at !== 33)) return null;
    if (type === 'IEND')
      return length === 0 && at === bytes.length ? [bytes.readUInt32BE(16), bytes.readUInt32BE(20)] : null;
  }
  return null;
};

/** Returns the end of a scan's pixels: the next marker other than stuffing and restarts. */
function endOfScan(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && !(bytes[at] === 0xff && !/^(?:00|d[0-7])$/.test(bytes.toString('hex', at + 1, at + 2))))
    at += 1;
  return at;
}

/**
 * Parses JPEG: segments of marker and length, from SOI to EOI; frame headers contain the dimensions (ITU-T T.81, annex
 * B).
 */
const jpegSides: Walk = (bytes) => {
  const frames: Sides[] = [];
  for (let at = 2; at < bytes.length;) {
    if (bytes[at] !== 0xff) return null;
    const marker = bytes.readUInt8(at + 1);
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    if (marker === 0xd9) return at + 2 === bytes.length ? largest(frames) : null;
    const length = bytes.readUInt16BE(at + 2);
    if (marker < 0xc0 || length < 2) return null;
    if (marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
      frames.push([bytes.readUInt16BE(at + 7), bytes.readUInt16BE(at + 5)]);
    at += 2 + length;
    if (marker === 0xda) at = endOfScan(bytes, at);
  }
  return null;
};

const frameOfVp8 = (bytes: Buffer, at: number): Sides | null =>
  bytes.readUIntBE(at + 3, 3) === 0x9d012a
    ? [bytes.readUInt16LE(at + 6) & 0x3fff, bytes.readUInt16LE(at + 8) & 0x3fff]
    : null;

function frameOfVp8l(bytes: Buffer, at: number): Sides | null {
  const sides = bytes.readUInt32LE(at + 1);
  return bytes[at] === 0x2f ? [(sides & 0x3fff) + 1, ((sides >>> 14) & 0x3fff) + 1] : null;
}

const canvasOfVp8x = (bytes: Buffer, at: number): Sides => [
  bytes.readUIntLE(at + 4, 3) + 1,
  bytes.readUIntLE(at + 7, 3) + 1,
];

/** Other permitted chunks. Animation frames (ANMF) need no check, because browsers reject frames outside the canvas. */
const WEBP_OTHERS = new Set(['ALPH', 'ANIM', 'ANMF', 'EXIF', 'ICCP', 'XMP ']);

/**
 * Parses WebP: chunks of type and length, padded to even, whose total is the length in the RIFF header (RFC 9649
 * §2.3–2.7).
 */
const webpSides: Walk = (bytes) => {
  if (bytes.readUInt32LE(4) + 8 !== bytes.length) return null;
  const readers: Readonly<Record<string, (bytes: Buffer, at: number) => Sides | null>> = {
    'VP8 ': frameOfVp8,
    VP8L: frameOfVp8l,
    VP8X: canvasOfVp8x,
  };
  const found: Sides[] = [];
  let at = 12;
  while (at < bytes.length) {
    const type = bytes.toString('latin1', at, at + 4);
    const length = bytes.readUInt32LE(at + 4);
    const sides = readers[type]?.(bytes, at + 8);
    if (sides === null || (sides === undefined && !WEBP_OTHERS.has(type))) return null;
    if (sides !== undefined) found.push(sides);
    at += 8 + length + (length % 2);
  }
  return at === bytes.length ? largest(found) : null;
};

const tableBytes = (flags: number): number => ((flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1));

/** Returns the end of a sequence of sub-blocks, each preceded by its length; the last is empty. */
function endOfSubBlocks(bytes: Buffer, from: number): number {
  let at = from;
  for (let length = bytes.readUInt8(at); length !== 0; length = bytes.readUInt8(at)) at += length + 1;
  return at + 1;
}

/** Parses GIF: extensions and images, up to the trailer (GIF89a, §17–27). */
const gifSides: Walk = (bytes) => {
  const found: Sides[] = [[bytes.readUInt16LE(6), bytes.readUInt16LE(8)]];
  for (let at = 13 + tableBytes(bytes.readUInt8(10)); at < bytes.length;) {
    const block = bytes[at];
    if (block === 0x3b) return at + 1 === bytes.length ? largest(found) : null;
    if (block === 0x2c) {
      found.push([
        bytes.readUInt16LE(at + 1) + bytes.readUInt16LE(at + 5),
        bytes.readUInt16LE(at + 3) + bytes.readUInt16LE(at + 7),
      ]);
      at = endOfSubBlocks(bytes, at + 11 + tableBytes(bytes.readUInt8(at + 9)));
    } else if (block === 0x21) at = endOfSubBlocks(bytes, at + 2);
    else return null;
  }
  return null;
};

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

/**
 * Determines the type of an uploaded picture by its bytes; the declared type is ignored. Returns the media type, or a fault that continues the
 * sentence "The picture …". SVG is not accepted, because an SVG document can contain scripts.
 */
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

export const LOGO_BYTES_MAX = 256 * 1024;

const DAY_SECONDS = 86_400;

/** Returns the path of a logo. The version in the query changes with the picture, so that browsers may cache it. */
export function logoPath(root: string, clientId: string, logoDate: Date): string {
  return `${root}/clients/${clientId}/logo?v=${logoDate.getTime()}`;
}

/** Renders the logo next to an app's name (hence the empty alt text); null without a logo. */
export function logoImage(root: string, client: { clientId: string; logoDate: Date | null }): Markup | null {
  return client.logoDate === null
    ? null
    : html`<img
        class="logo"
        src="${logoPath(root, client.clientId, client.logoDate)}"
        alt=""
        width="48"
        height="48"
      />`;
}

const changeLogo = (sql: Sql, client: Client, actor: ClientActor, write: (tx: Tx) => Promise<void>): Promise<void> =>
  transaction(sql, async (tx) => {
    if (!(await touchClient(tx, client.id, actor))) throw notFound('app');
    await write(tx);
    const detail = { name: client.name, changed: ['logo'] };
    await recordClientEntry(tx, 'client_changed', client, { ...actor, detail });
  });

const fault = (code: string, message: string): Fault => ({ code, message, field: 'logo' });

/** Validates and stores a logo. Returns the fault of the picture; undefined if it was stored. */
export async function setLogo(sql: Sql, client: Client, bytes: Buffer, actor: ClientActor): Promise<Fault | undefined> {
  if (bytes.length === 0) return fault('required', 'Choose a picture to upload');
  if (bytes.length > LOGO_BYTES_MAX)
    return fault('too_large', `The picture must be at most ${LOGO_BYTES_MAX / 1024} KiB`);
  const inspected = inspectPicture(bytes);
  if ('fault' in inspected) return fault('invalid_value', `The picture ${inspected.fault}`);
  const { mediaType } = inspected;
  await changeLogo(sql, client, actor, (tx) => upsertLogo(tx, client.id, { mediaType, bytes }, actor.now));
  return undefined;
}

export function removeLogo(sql: Sql, client: Client, actor: ClientActor): Promise<void> {
  return changeLogo(sql, client, actor, (tx) => deleteLogo(tx, client.id));
}

/** GET {auth_url}/clients/<client_id>/logo. The CSP isolates the picture in case it is opened as a document. */
export function createLogo({ sql }: { sql: Sql }): RawHandler {
  return async ({ params }) => {
    const clientId = params['client_id'] ?? '';
    const logo = isClientId(clientId) ? await findLogo(sql, clientId) : undefined;
    if (logo === undefined) throw notFound('logo');
    const headers = {
      'Content-Type': logo.mediaType,
      'Content-Security-Policy': "default-src 'none'; sandbox",
      'Cache-Control': `public, max-age=${DAY_SECONDS}`,
    };
    return { status: 200, headers, body: logo.bytes };
  };
}
