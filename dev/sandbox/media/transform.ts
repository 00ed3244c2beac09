/** Edits, upscales and cuts out input images. */
import sharp, { type Metadata, type Sharp } from 'sharp';
import { encodeMedia, drawSvg, type Drawing, type PictureFormat } from './draw.ts';
import { fetchInput, MediaInputError, type Media, type MediaInput } from './media.ts';
import type { Size } from './size.ts';

const edgePixelsMax = 16_384;
const outputPixelsMax = 64_000_000;
const thumbnailsMax = 3;

interface Loaded {
  image: Sharp;
  size: Size;
}

async function load(input: MediaInput): Promise<Loaded> {
  const bytes = await fetchInput(input);
  const image = sharp(bytes, { limitInputPixels: 268_000_000 }).autoOrient();
  let metadata: Metadata;
  try {
    metadata = await image.metadata();
  } catch {
    throw new MediaInputError('decode', input);
  }
  return { image, size: { width: metadata.autoOrient.width, height: metadata.autoOrient.height } };
}

/** Converts decoding errors to MediaInputError, because the input causes them. */
async function asInputError<T>(input: MediaInput, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof MediaInputError ? error : new MediaInputError('decode', input);
  }
}

/**
 * Reads the width and height of an input image.
 * @throws MediaInputError if the image cannot be read
 */
export async function measure(input: MediaInput): Promise<Size> {
  return (await load(input)).size;
}

/** Edit of one or more images: the first becomes the background, the others appear as thumbnails. */
export interface Edit extends Drawing {
  images: [MediaInput, ...MediaInput[]];
  /** Mask image: white areas are edited, black areas stay as they are. */
  mask?: MediaInput | undefined;
}

async function overlay(edit: Edit): Promise<Buffer> {
  const shapes = sharp(drawSvg({ ...edit, transparent: true })).ensureAlpha();
  if (!edit.mask) return shapes.png({ compressionLevel: 1 }).toBuffer();
  const { image } = await load(edit.mask);
  const { width, height } = edit;
  const mask = await asInputError(
    edit.mask,
    image.resize(width, height, { fit: 'fill' }).flatten().greyscale().raw().toBuffer(),
  );
  const paint = { create: { width, height, channels: 3, background: '#000' } } as const;
  const stencil = await sharp(paint)
    .joinChannel(mask, { raw: { width, height, channels: 1 } })
    .png({ compressionLevel: 1 })
    .toBuffer();
  const drawn = await shapes.png({ compressionLevel: 1 }).toBuffer();
  return sharp(drawn)
    .composite([{ input: stencil, blend: 'dest-in' }])
    .png({ compressionLevel: 1 })
    .toBuffer();
}

async function thumbnail(input: MediaInput, edge: number): Promise<Buffer> {
  const { image } = await load(input);
  return asInputError(input, image.resize(edge, edge, { fit: 'cover' }).png().toBuffer());
}

/**
 * Draws over the input image, only inside the mask if there is one.
 * @throws MediaInputError if an input cannot be read
 */
export async function editPicture(edit: Edit): Promise<Media> {
  const { width, height, format } = edit;
  const [first, ...others] = edit.images;
  const edge = Math.max(16, Math.round(Math.min(width, height) / 6));
  const [{ image }, paint, ...thumbnails] = await Promise.all([
    load(first),
    overlay(edit),
    ...others.map(async (other) => thumbnail(other, edge)),
  ]);
  const ground = await asInputError(
    first,
    image
      .resize(width, height, { fit: 'cover' })
      .ensureAlpha()
      .png({ compressionLevel: 1 })
      .toBuffer(),
  );
  const strip = thumbnails
    .slice(0, thumbnailsMax)
    .map((input, position) => ({ input, left: position * edge, top: 0 }));
  const below = edit.transparent ? await withoutBackground(ground, edit) : ground;
  const edited = sharp(below).composite([{ input: paint, blend: 'over' as const }, ...strip]);
  return encodeMedia(edit.transparent ? edited : edited.removeAlpha(), format);
}

/**
 * Enlarges an image by a factor.
 * @throws MediaInputError if the result would be too large
 */
export async function upscalePicture(
  input: MediaInput,
  { factor, format }: { factor: number; format: PictureFormat },
): Promise<Media> {
  const { image, size } = await load(input);
  const width = Math.max(1, Math.round(size.width * factor));
  const height = Math.max(1, Math.round(size.height * factor));
  if (Math.max(width, height) > edgePixelsMax || width * height > outputPixelsMax) {
    throw new MediaInputError('too_large', input);
  }
  const enlarged = image.resize(width, height, { fit: 'fill', kernel: 'cubic' });
  return asInputError(input, encodeMedia(enlarged, format));
}

/** Masks the pixels that differ from the first pixel, which is probably background. */
function maskByColor(pixels: Buffer, size: Size): Buffer {
  const [red = 0, green = 0, blue = 0] = pixels;
  const mask = Buffer.alloc(size.width * size.height);
  for (let pixel = 0; pixel < mask.length; pixel += 1) {
    const at = pixel * 3;
    const distance = Math.hypot(
      (pixels[at] ?? 0) - red,
      (pixels[at + 1] ?? 0) - green,
      (pixels[at + 2] ?? 0) - blue,
    );
    mask[pixel] = Math.max(0, Math.min(255, (distance - 30) * 6));
  }
  return mask;
}

/** Masks an ellipse in the middle, for images without a plain background. */
function maskByEllipse({ width, height }: Size): Buffer {
  const mask = Buffer.alloc(width * height);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const radius = Math.hypot((2 * x) / width - 1, (2 * y) / height - 1);
      mask[y * width + x] = Math.max(0, Math.min(255, (0.9 - radius) * 2000));
    }
  }
  return mask;
}

function findForeground(pixels: Buffer, size: Size): Buffer {
  const byColor = maskByColor(pixels, size);
  const share = byColor.reduce((sum, alpha) => sum + alpha, 0) / (byColor.length * 255);
  return share > 0.02 && share < 0.98 ? byColor : maskByEllipse(size);
}

/** Makes the background of an image transparent. */
async function withoutBackground(picture: Buffer, { width, height }: Size): Promise<Buffer> {
  const size = { width, height };
  const pixels = await sharp(picture).toColourspace('srgb').removeAlpha().raw().toBuffer();
  return sharp(pixels, { raw: { ...size, channels: 3 } })
    .joinChannel(findForeground(pixels, size), { raw: { ...size, channels: 1 } })
    .png({ compressionLevel: 1 })
    .toBuffer();
}

/** Cut-out image and its mask, both with the size of the input. */
export interface CutOut {
  image: Media;
  mask: Media;
}

/** Cuts out the foreground of an image. The mask is computed at no more than `operatingEdge` pixels. */
export async function cutOut(
  input: MediaInput,
  { operatingEdge, format }: { operatingEdge: number; format: PictureFormat },
): Promise<CutOut> {
  const { image, size } = await load(input);
  const bounds = { fit: 'inside', withoutEnlargement: true } as const;
  const small = await asInputError(
    input,
    image
      .clone()
      .resize(operatingEdge, operatingEdge, bounds)
      .flatten({ background: '#fff' })
      .toColourspace('srgb')
      .removeAlpha()
      .raw()
      .toBuffer({ resolveWithObject: true }),
  );
  const smallMask = findForeground(small.data, small.info);
  const raw = { width: small.info.width, height: small.info.height, channels: 1 } as const;
  const mask = await sharp(smallMask, { raw })
    .resize(size.width, size.height, { fit: 'fill' })
    .toColourspace('b-w')
    .raw()
    .toBuffer();
  const maskRaw = { raw: { ...size, channels: 1 as const } };
  // Use a separate pipeline, because sharp would remove the joined alpha channel with that of the input.
  const opaque = image.flatten({ background: '#fff' }).toColourspace('srgb').removeAlpha();
  const ground = await asInputError(input, opaque.raw().toBuffer());
  const cut = sharp(ground, { raw: { ...size, channels: 3 } }).joinChannel(mask, maskRaw);
  return {
    image: await encodeMedia(cut, format),
    mask: await encodeMedia(sharp(mask, maskRaw), format),
  };
}
