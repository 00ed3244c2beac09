/** Input fields that many fal endpoints share, and the run of the endpoints that draw pictures. */
import { z } from 'zod';
import { findFault, withoutMarkers } from '../../faults.ts';
import type { PictureFormat } from '../../media/draw.ts';
import type { MediaInput } from '../../media/media.ts';
import { sizeOfAspect, type Size } from '../../media/size.ts';
import type { GenerationContext } from '../endpoint.ts';

/** Prompt with a maximum length in characters. */
export const prompt = (charactersMax = 50_000) => z.string().min(1).max(charactersMax);
/** Number of pictures. */
export const numImages = (max: number) => z.int().min(1).max(max).default(1);
/** Optional in pydantic's sense: absent or null. */
export const seed = z.int().nullish();
/** Output format; default `png`. */
export const outputFormat = z.enum(['jpeg', 'png', 'webp']).default('png');
/** If true, the result contains the media as data URIs. */
export const syncMode = z.boolean().default(false);
/** Safety tolerance; 1 is the strictest. */
export const safetyTolerance = z.enum(['1', '2', '3', '4', '5', '6']).default('4');
/** Ratios of the nano-banana family. */
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
/** URL of an input picture. */
export const imageUrl = z.string().min(1);
/** One or more input pictures. */
export const imageUrls = (max = 16) => z.array(imageUrl).min(1).max(max);

/** Parts of a picture request that the sandbox draws by. */
export interface PictureRequest {
  prompt: string;
  seed?: number | null | undefined;
  count: number;
  size: Size;
  format: PictureFormat;
  transparent?: boolean;
}

function drawings(request: PictureRequest, context: GenerationContext) {
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

/** Draws the requested pictures. */
export async function drawAll(request: PictureRequest, context: GenerationContext) {
  const all = drawings(request, context);
  return Promise.all(all.map(async (drawing) => context.pictures.draw(drawing)));
}

/** Fetches the input pictures of `image_urls`. */
export function inputsOf(
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
 * Edits the input pictures, once per requested picture.
 * @throws MediaInputError
 */
export async function editAll(request: EditRequest, context: GenerationContext) {
  const { images, mask } = request;
  const all = drawings(request, context);
  return Promise.all(
    all.map(async (drawing) => context.pictures.edit({ ...drawing, images, mask })),
  );
}

/**
 * Returns the size for `auto`: the shape of the first input at this resolution.
 * @throws MediaInputError
 */
export async function sizeLikeInput(
  context: GenerationContext,
  input: MediaInput,
  resolution?: string,
): Promise<Size> {
  const { width, height } = await context.pictures.measure(input);
  // Models limit the shape to 3:1.
  const ratio = Math.min(3, Math.max(1 / 3, width / height));
  return sizeOfAspect(ratio, resolution);
}
