/** Checks the type of a media file by its first bytes and, for a picture, the number of pixels. */
import { open } from 'node:fs/promises';
import sharp from 'sharp';
import { GatewayError } from '../domain/errors.ts';
import { findMediaType, pixelsMax, detectMediaType, type MediaType } from './media-types.ts';

/**
 * Number of bytes that are read from the start of a file to detect its type and the size of a
 * picture, which may follow long metadata.
 */
export const headBytes = 1024 * 1024;

/**
 * Checks the type of a file by its first bytes, and the number of pixels of a picture by its
 * header.
 * @param declaredType content type that the caller declared; null if none
 * @returns the declared type if there is one, otherwise the detected type; types that share a
 * container cannot be distinguished
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
 */
export async function inspectHead(head: Buffer, declaredType: string | null): Promise<MediaType> {
  const detected = await detectMediaType(head);
  const type = declaredType === null ? detected : findMediaType(declaredType);
  if (!detected || !type || detected.family !== type.family) {
    const expected = type ? `a file of the type ${type.contentType}` : 'of an accepted type';
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', `The content is not ${expected}.`);
  }
  if (type.medium === 'image') await checkPixels(head);
  return type;
}

/** Throws if the header of a picture is unreadable or declares too many pixels. */
async function checkPixels(head: Buffer): Promise<void> {
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

/** Reads at most `bytesMax` bytes from the start of a file. */
export async function readHead(path: string, bytesMax: number): Promise<Buffer> {
  const file = await open(path);
  try {
    const head = Buffer.alloc(bytesMax);
    const { bytesRead } = await file.read(head, 0, bytesMax, 0);
    return head.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
