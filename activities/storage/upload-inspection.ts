/** What an upload may be: its type by its first bytes, its pixels by its header, its bytes by its type. */
import sharp from 'sharp';
import { GatewayError } from '../../domain/errors.ts';
import { fileBytesMax, mediaTypeOf, sniff, type MediaType } from './media-types.ts';

/** The most pixels of an image that anything here opens. */
const pixelsMax = 64_000_000;
/** Enough of a file's start to tell its type, and a picture's size behind whatever metadata. */
export const headBytes = 1024 * 1024;

/**
 * Checks the start of a file against what was agreed: type by first bytes, pixels by the header.
 * @returns the type that it is taken for.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
 */
export async function inspectHead(head: Buffer, agreed: string | null): Promise<MediaType> {
  const found = await sniff(head);
  const wanted = agreed === null ? found : mediaTypeOf(agreed);
  if (!found || !wanted || found.family !== wanted.family) {
    const expected = wanted ? `a file of the type ${wanted.contentType}` : 'of an accepted type';
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', `The content is not ${expected}.`);
  }
  if (wanted.medium === 'image') await refusePixelBomb(head);
  return wanted;
}

async function refusePixelBomb(head: Buffer): Promise<void> {
  let pixels = Number.NaN;
  try {
    // Only the header is read; nothing is decoded here.
    const { width, height } = await sharp(head, { limitInputPixels: false }).metadata();
    pixels = width * height;
  } catch {
    // Falls through: a header that says nothing is refused like one that says too much.
  }
  if (!(pixels > 0)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'The image has no readable header.');
  }
  if (pixels > pixelsMax) {
    throw new GatewayError('FILE_TOO_LARGE', `The image has more than ${pixelsMax} pixels.`);
  }
}

/** Bytes that an upload may have, by what is known of it. */
export function bytesMaxOf(contentType: string | null): number {
  const type = contentType === null ? undefined : mediaTypeOf(contentType);
  return type ? fileBytesMax[type.medium] : Math.max(...Object.values(fileBytesMax));
}
