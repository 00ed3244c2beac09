/** Input fields shared by many fal endpoints, and functions that draw and edit images. */
import { z } from 'zod';
import { findFault, withoutMarkers } from '../../faults.ts';
import type { PictureFormat } from '../../media/draw.ts';
import type { MediaInput } from '../../media/media.ts';
import { calculateSize, type Size } from '../../media/size.ts';
import type { GenerationContext } from '../endpoint.ts';

/** Builds the schema of a prompt with a maximum length in characters. */
export const prompt = (charactersMax = 50_000) => z.string().min(1).max(charactersMax);
/** Builds the schema of the number of images. */
export const numImages = (max: number) => z.int().min(1).max(max).default(1);
/** Schema of an optional seed. */
export const seed = z.int().nullish();
/** Schema of the output format. */
export const outputFormat = z.enum(['jpeg', 'png', 'webp']).default('png');
/** Schema of a flag to return the media as data URIs. */
export const syncMode = z.boolean().default(false);
/** Schema of the safety tolerance; 1 is the strictest. */
export const safetyTolerance = z.enum(['1', '2', '3', '4', '5', '6']).default('4');
/** Aspect ratios that the nano-banana models support. */
export const aspectRatios = [
  '21:9',
  '16:9',
  '3:2',
  '4:3',
  '5:4',
  '1:1',
  '4:5',
  '3:4',
  '2:3',
  '9:16',
] as const;
/** Schema of an input image's URL. */
export const imageUrl = z.string().min(1);
/** Builds the schema of one or more input images. */
export const imageUrls = (max = 16) => z.array(imageUrl).min(1).max(max);

/** Properties of the images to draw. */
export interface PictureRequest {
  prompt: string;
  seed?: number | null | undefined;
  count: number;
  size: Size;
  format: PictureFormat;
  transparent?: boolean;
}

function planDrawings(request: PictureRequest, context: GenerationContext) {
  const { count, size, format, transparent } = request;
  const shrink = Number(findFault(context.faults, 'small-media')?.argument || 1);
  return Array.from({ length: count }, (_, index) => ({
    width: Math.max(1, Math.round(size.width / shrink)),
    height: Math.max(1, Math.round(size.height / shrink)),
    prompt: withoutMarkers(request.prompt),
    seed: request.seed ?? context.requestSeed,
    index,
    format,
    transparent: transparent ?? false,
  }));
}

/** Draws the requested images. */
export async function drawAll(request: PictureRequest, context: GenerationContext) {
  const all = planDrawings(request, context);
  return Promise.all(all.map(async (drawing) => context.pictures.draw(drawing)));
}

/** Converts the URLs of the input images to media inputs. */
export function toMediaInputs(
  urls: readonly string[],
  field = 'image_urls',
): [MediaInput, ...MediaInput[]] {
  const [first = '', ...others] = urls;
  return [{ field, url: first }, ...others.map((url) => ({ field, url }))];
}

interface EditRequest extends PictureRequest {
  images: [MediaInput, ...MediaInput[]];
  mask?: MediaInput | undefined;
}

/**
 * Edits the input images once for each requested image.
 * @throws MediaInputError if an input cannot be read
 */
export async function editAll(request: EditRequest, context: GenerationContext) {
  const { images, mask } = request;
  const all = planDrawings(request, context);
  return Promise.all(
    all.map(async (drawing) => context.pictures.edit({ ...drawing, images, mask })),
  );
}

/**
 * Calculates the image size for `auto`: the shape of the first input, at the given resolution.
 * @throws MediaInputError if the input cannot be read
 */
export async function matchInputSize(
  context: GenerationContext,
  input: MediaInput,
  resolution?: string,
): Promise<Size> {
  const { width, height } = await context.pictures.measure(input);
  // Models limit the aspect ratio to 3:1.
  const ratio = Math.min(3, Math.max(1 / 3, width / height));
  return calculateSize(ratio, resolution);
}
