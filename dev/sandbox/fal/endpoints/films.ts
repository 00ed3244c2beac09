/** Functions shared by the video endpoints: sizes, aspect ratios and results. */
import { findFault, withoutMarkers } from '../../faults.ts';
import type { Film } from '../../media/film.ts';
import type { MediaInput } from '../../media/media.ts';
import type { Size } from '../../media/size.ts';
import type { FalFile, Generated, GenerationContext } from '../endpoint.ts';

/** Reduces a File to the fields that results without image or video properties have. */
export function toPlainFile(file: FalFile | undefined) {
  if (!file) return undefined;
  const { url, content_type, file_name, file_size } = file;
  return { url, content_type, file_name, file_size };
}

function toEven(value: number): number {
  return Math.max(2, Math.round(value / 2) * 2);
}

/**
 * Calculates the frame size for an aspect ratio. The shorter edge is given by the resolution, such as `720p`; both are even,
 * as H.264 requires.
 */
export function frameSize(ratio: number, resolution: string): Size {
  const short = Number.parseInt(resolution, 10);
  return ratio >= 1
    ? { width: toEven(short * ratio), height: toEven(short) }
    : { width: toEven(short), height: toEven(short / ratio) };
}

/** Parses an aspect ratio such as `"16:9"` to width / height. */
export function parseAspectRatio(aspect: string): number {
  const [across = 1, down = 1] = aspect.split(':').map(Number);
  return across / down;
}

/**
 * Reads the aspect ratio of an image, limited to 21:9.
 * @throws MediaInputError if the image cannot be read
 */
export async function readAspectRatio(
  context: GenerationContext,
  input: MediaInput,
): Promise<number> {
  const { width, height } = await context.pictures.measure(input);
  return Math.min(21 / 9, Math.max(9 / 21, width / height));
}

interface FilmRequest extends Omit<Film, 'seed'> {
  seed?: number | null | undefined;
}

/** Applies faults to the requested video. */
function applyFaults(request: FilmRequest, { faults }: GenerationContext): FilmRequest {
  const short = findFault(faults, 'short-film');
  const shrink = Number(findFault(faults, 'small-media')?.argument || 1);
  return {
    ...request,
    width: toEven(request.width / shrink),
    height: toEven(request.height / shrink),
    durationSeconds: short ? Number(short.argument || 1) : request.durationSeconds,
    hasAudio: request.hasAudio && !findFault(faults, 'silent-film'),
  };
}

/** Generates a video. The result has one `video`, and the seed if the model returns it. */
export async function generateVideo(
  request: FilmRequest,
  context: GenerationContext,
  { withSeed = false } = {},
): Promise<Generated> {
  const seed = request.seed ?? context.requestSeed;
  const prompt = withoutMarkers(request.prompt);
  const film = applyFaults(request, context);
  const media = [await context.films.film({ ...film, prompt, seed })];
  return {
    media,
    output: ([video]) => ({ video: toPlainFile(video), ...(withSeed && { seed }) }),
  };
}

/**
 * Reads the last frame of a request, which the film of the sandbox does not show.
 * @throws MediaInputError if the image cannot be read
 */
export async function checkLastFrame(
  context: GenerationContext,
  field: string,
  url: string | null | undefined,
): Promise<void> {
  if (url != null) await context.pictures.measure({ field, url });
}
