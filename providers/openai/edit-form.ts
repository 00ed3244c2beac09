/**
 * Creates the multipart form of an image edit. The input contains the URLs of pictures; the form
 * contains their files. The pictures are downloaded first, so that a failing URL cannot interrupt a
 * call while it is sent.
 */
import { randomUUID } from 'node:crypto';
import { openAsBlob } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
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

/** Multipart form of an image edit. `discard` deletes its temporary files. */
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
/** Maximum number of pixels of a picture; a mask needs one byte of memory per pixel. */
const pixelsMax = 64_000_000;
const fetchTimeoutMs = 60_000;

/**
 * Creates the form of an image edit.
 * @throws ProviderFailure `rejected` if a picture is not usable; `not_accepted` if the form cannot
 * be created now
 */
export async function createEditForm(
  input: JsonObject,
  options: EditFormOptions,
): Promise<EditForm> {
  const { image_urls: urls, mask_url: maskUrl, ...fields } = editInput.parse(input);
  const directory = join(tmpdir(), `image-edit-${randomUUID()}`);
  const discard = (): Promise<void> => rm(directory, { recursive: true, force: true });
  const downloadPicture = (url: string, name: string): Promise<Picture> =>
    fetchPicture(url, join(directory, name), options);
  try {
    await mkdir(directory, { mode: 0o700 });
    const pictures = await Promise.all(
      urls.map((url, index) => downloadPicture(url, `image-${index}`)),
    );
    const mask = maskUrl === undefined ? undefined : await downloadPicture(maskUrl, 'mask');
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, String(value));
    for (const [index, picture] of pictures.entries()) {
      // The pictures are appended one after the other, because their order is significant.
      const file = await openAsBlob(picture.path, { type: `image/${picture.format}` });
      form.append('image[]', file, `image-${index}.${picture.format}`);
    }
    const [firstPicture] = pictures;
    if (mask && firstPicture)
      form.set('mask', await openAsBlob(await writeMask(mask, firstPicture)), 'mask.png');
    return { form, discard };
  } catch (cause) {
    await discard();
    if (cause instanceof ProviderFailure) throw cause;
    // The call was not sent, so the provider certainly did no work and the call may be sent later.
    throw new ProviderFailure('not_accepted', 'the edit form cannot be created now', { cause });
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
    throw new ProviderFailure(
      error.isTemporary ? 'not_accepted' : 'rejected',
      `an input picture cannot be read: ${error.message}`,
    );
  }
  const metadata = await sharp(path, { limitInputPixels: pixelsMax })
    .metadata()
    .catch(() => null);
  if (!metadata || !['png', 'jpeg', 'webp', 'gif'].includes(metadata.format)) {
    throw new ProviderFailure('rejected', 'an input picture is not a PNG, JPEG, WebP or GIF image');
  }
  if (metadata.format === 'gif') return convertToPng(path, metadata);
  return { path, format: metadata.format, width: metadata.width, height: metadata.height };
}

/** Converts a GIF, which OpenAI does not accept. */
async function convertToPng(path: string, size: Pick<Picture, 'width' | 'height'>) {
  await sharp(path, { limitInputPixels: pixelsMax }).png().toFile(`${path}.gif.png`);
  return { path: `${path}.gif.png`, format: 'png', width: size.width, height: size.height };
}

/**
 * Converts a mask to the form that OpenAI requires, and resizes it to the first picture. In the
 * input, white marks the pixels to edit (spec §4.7); for OpenAI, alpha 0 marks them.
 */
async function writeMask(mask: Picture, { width, height }: Picture): Promise<string> {
  const alphaChannel = await sharp(mask.path)
    .flatten({ background: '#000' })
    .resize(width, height, { fit: 'fill' })
    .greyscale()
    .negate()
    .toColourspace('b-w')
    .raw()
    .toBuffer();
  const path = `${mask.path}.png`;
  await sharp({ create: { width, height, channels: 3, background: '#000' } })
    .joinChannel(alphaChannel, { raw: { width, height, channels: 1 } })
    .png()
    .toFile(path);
  return path;
}
