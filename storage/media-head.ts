/** Start of a media file: its type and, for a picture, its number of pixels. */
import { open } from 'node:fs/promises';
import sharp from 'sharp';
import { GatewayError } from '../domain/errors.ts';
import { mediaTypeOf, pixelsMax, sniff, type MediaType } from './media-types.ts';

/**
 * Number of bytes at the start of a file that suffice to detect its type, and a picture's size
 * behind its metadata.
 */
export const headBytes = 1024 * 1024;

/**
 * Checks the start of a file: its type by the first bytes, and the number of pixels of a picture by
 * the header.
 * @param declaredType content type that the caller declared; null if none
 * @returns the type of the file; types with the same container are not distinguished, so the
 * declared type is returned
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
 */
export async function inspectHead(head: Buffer, declaredType: string | null): Promise<MediaType> {
  const detected = await sniff(head);
  const type = declaredType === null ? detected : mediaTypeOf(declaredType);
  if (!detected || !type || detected.family !== type.family) {
    const expected = type ? `a file of the type ${type.contentType}` : 'of an accepted type';
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', `The content is not ${expected}.`);
  }
  if (type.medium === 'image') await refusePixelBomb(head);
  return type;
}

/** Rejects a picture whose header names too many pixels, or no size. */
async function refusePixelBomb(head: Buffer): Promise<void> {
  let pixels = Number.NaN;
  try {
    // `metadata` reads only the header and decodes no pixels.
    const { width, height } = await sharp(head, { limitInputPixels: false }).metadata();
    pixels = width * height;
  } catch {
    // An unreadable header leaves `pixels` NaN, so the picture is rejected below.
  }
  if (!(pixels > 0)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'The image has no readable header.');
  }
  if (pixels > pixelsMax) {
    throw new GatewayError('FILE_TOO_LARGE', `The image has more than ${pixelsMax} pixels.`);
  }
}

/** Reads the first bytes of a file, at most `bytesMax`. */
export async function headOf(path: string, bytesMax: number): Promise<Buffer> {
  const file = await open(path);
  try {
    const head = Buffer.alloc(bytesMax);
    const { bytesRead } = await file.read(head, 0, bytesMax, 0);
    return head.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
