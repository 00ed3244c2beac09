/**
 * Creates the multipart form of an edit. The input contains the URLs of pictures, and the form
 * contains the files. They are downloaded first, so that a failing URL does not interrupt a call
 * that is being sent.
 */
import { openAsBlob } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { FormData } from 'undici';
import { z } from 'zod';
import type { JsonObject } from '../../domain/json.ts';
import { OutboundError } from '../../platform/outbound-addresses.ts';
import type { Outbound } from '../../platform/outbound.ts';
import { writeSpoolFile } from '../../storage/spool.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';

interface EditFormOptions {
  outbound: Outbound;
  signal: AbortSignal;
}

/** Form of an edit; `discard` removes its files. */
export interface EditForm {
  form: FormData;
  discard: () => Promise<void>;
}

interface Picture {
  path: string;
  format: string;
  width: number;
  height: number;
}

const editInput = z
  .object({ image_urls: z.array(z.string()).min(1), mask_url: z.string().optional() })
  .catchall(z.union([z.string(), z.number()]));

const pictureBytesMax = 25 * 1024 * 1024;
/** Maximum number of pixels of a picture; a mask is held in memory with one byte per pixel. */
const pixelsMax = 64_000_000;
const fetchTimeoutMs = 60_000;

/**
 * Creates the form of an edit.
 * @throws ProviderFailure `rejected` or `not_accepted`, because no call was sent
 */
export async function createEditForm(
  input: JsonObject,
  options: EditFormOptions,
): Promise<EditForm> {
  const { image_urls: urls, mask_url: maskUrl, ...fields } = editInput.parse(input);
  const directory = await mkdtemp(join(tmpdir(), 'image-edit-'));
  const discard = (): Promise<void> => rm(directory, { recursive: true, force: true });
  const load = (url: string, name: string): Promise<Picture> =>
    fetchPicture(url, join(directory, name), options);
  try {
    const pictures = await Promise.all(urls.map((url, index) => load(url, `image-${index}`)));
    const mask = maskUrl === undefined ? undefined : await load(maskUrl, 'mask');
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, String(value));
    for (const [index, picture] of pictures.entries()) {
      // The loop keeps the order of the pictures, which is significant.
      const file = await openAsBlob(picture.path, { type: `image/${picture.format}` });
      form.append('image[]', file, `image-${index}.${picture.format}`);
    }
    const [first] = pictures;
    if (mask && first) form.set('mask', await openAsBlob(await writeMask(mask, first)), 'mask.png');
    return { form, discard };
  } catch (cause) {
    await discard();
    if (cause instanceof ProviderFailure) throw cause;
    // Nothing was sent, so the provider certainly did no work and the call may be repeated.
    throw new ProviderFailure('not_accepted', 'the form of the edit cannot be created now', {
      cause,
    });
  }
}

async function fetchPicture(
  url: string,
  path: string,
  { outbound, signal }: EditFormOptions,
): Promise<Picture> {
  const limits = { bytesMax: pictureBytesMax, timeoutMs: fetchTimeoutMs, signal };
  try {
    await writeSpoolFile(path, await outbound.fetch(url, limits));
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    const isTemporary = error.reason === 'unreachable' || error.reason === 'broken';
    throw new ProviderFailure(
      isTemporary ? 'not_accepted' : 'rejected',
      `an input picture cannot be read: ${error.message}`,
    );
  }
  const metadata = await sharp(path, { limitInputPixels: pixelsMax })
    .metadata()
    .catch(() => null);
  if (!metadata || !['png', 'jpeg', 'webp'].includes(metadata.format)) {
    throw new ProviderFailure('rejected', 'an input picture is not a PNG, JPEG or WebP image');
  }
  return { path, format: metadata.format, width: metadata.width, height: metadata.height };
}

/**
 * Converts a mask from white = edit (spec §4.7) to alpha 0 = edit (OpenAI), and resizes it to the
 * first picture.
 */
async function writeMask(mask: Picture, { width, height }: Picture): Promise<string> {
  const alpha = await sharp(mask.path)
    .flatten({ background: '#000' })
    .resize(width, height, { fit: 'fill' })
    .greyscale()
    .negate()
    .toColourspace('b-w')
    .raw()
    .toBuffer();
  const path = `${mask.path}.png`;
  await sharp({ create: { width, height, channels: 3, background: '#000' } })
    .joinChannel(alpha, { raw: { width, height, channels: 1 } })
    .png()
    .toFile(path);
  return path;
}
