/** What the video endpoints share: sizes, durations and fal's plain File. */
import { findFault, withoutMarkers } from '../../faults.ts';
import type { Film } from '../../media/film.ts';
import type { MediaInput } from '../../media/media.ts';
import type { Size } from '../../media/size.ts';
import type { FalFile, Generated, GenerationContext } from '../endpoint.ts';

/** fal's `File` without what only `ImageFile` and `VideoFile` carry. */
export function plainFile(file: FalFile | undefined) {
  if (!file) return undefined;
  const { url, content_type, file_name, file_size } = file;
  return { url, content_type, file_name, file_size };
}

function toEven(value: number): number {
  return Math.max(2, Math.round(value / 2) * 2);
}

/** A frame of this ratio whose shorter edge is `720p` or the like; edges are even, as H.264 asks. */
export function frameSize(ratio: number, resolution: string): Size {
  const short = Number.parseInt(resolution, 10);
  return ratio >= 1
    ? { width: toEven(short * ratio), height: toEven(short) }
    : { width: toEven(short), height: toEven(short / ratio) };
}

/** Width / height of `"16:9"`. */
export function ratioOf(aspect: string): number {
  const [across = 1, down = 1] = aspect.split(':').map(Number);
  return across / down;
}

/** The ratio of a picture, at most 21:9. @throws MediaInputError */
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

/** The film that is delivered: the one asked for, unless a fault says otherwise. */
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

/** Makes the film; its result is one `video`, and the seed when the model tells it. */
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
