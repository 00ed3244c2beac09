/** Common parts of the video endpoints: sizes, durations and fal's plain File. */
import { findFault, withoutMarkers } from '../../faults.ts';
import type { Film } from '../../media/film.ts';
import type { MediaInput } from '../../media/media.ts';
import type { Size } from '../../media/size.ts';
import type { FalFile, Generated, GenerationContext } from '../endpoint.ts';

/** fal's `File`, without the fields of `ImageFile` and `VideoFile`. */
export function plainFile(file: FalFile | undefined) {
  if (!file) return undefined;
  const { url, content_type, file_name, file_size } = file;
  return { url, content_type, file_name, file_size };
}

function toEven(value: number): number {
  return Math.max(2, Math.round(value / 2) * 2);
}

/**
 * Returns a frame size of this ratio; the shorter edge is `720p` or the like, and edges are even,
 * as H.264 requires.
 */
export function frameSize(ratio: number, resolution: string): Size {
  const short = Number.parseInt(resolution, 10);
  return ratio >= 1
    ? { width: toEven(short * ratio), height: toEven(short) }
    : { width: toEven(short), height: toEven(short / ratio) };
}

/** Returns width / height of `"16:9"`. */
export function ratioOf(aspect: string): number {
  const [across = 1, down = 1] = aspect.split(':').map(Number);
  return across / down;
}

/**
 * Returns the ratio of a picture, at most 21:9.
 * @throws MediaInputError
 */
export async function ratioLikeInput(
  context: GenerationContext,
  input: MediaInput,
): Promise<number> {
  const { width, height } = await context.pictures.measure(input);
  return Math.min(21 / 9, Math.max(9 / 21, width / height));
}

interface FilmRequest extends Omit<Film, 'seed'> {
  seed?: number | null | undefined;
}

/** Returns the requested film, changed by a fault if there is one. */
function deliveredFilm(request: FilmRequest, { faults }: GenerationContext): FilmRequest {
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

/** Makes the film; the result has one `video`, and the seed if the model returns it. */
export async function filmOf(
  request: FilmRequest,
  context: GenerationContext,
  { withSeed = false } = {},
): Promise<Generated> {
  const seed = request.seed ?? context.requestSeed;
  const prompt = withoutMarkers(request.prompt);
  const film = deliveredFilm(request, context);
  const media = [await context.films.film({ ...film, prompt, seed })];
  return {
    media,
    output: ([video]) => ({ video: plainFile(video), ...(withSeed && { seed }) }),
  };
}
