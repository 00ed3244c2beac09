/** Pictures of the endpoints; the tiny kind is for benchmarks and most tests. */
import { draw } from './draw.ts';
import type { Media, MediaSize } from './media.ts';
import { cutOut, editPicture, measure, upscalePicture } from './transform.ts';

/** Makes pictures with the requested size. */
const fullPictures = {
  draw,
  measure,
  edit: editPicture,
  upscale: upscalePicture,
  cutOut,
};
/** Maker of pictures. */
export type Pictures = typeof fullPictures;

/** Makes pictures of the current size. */
export function createPictures(size: MediaSize): Pictures {
  const tinyPictures = createTinyPictures();
  const current = (): Pictures => (size.tiny ? tinyPictures : fullPictures);
  return {
    draw: (drawing) => current().draw(drawing),
    measure: (input) => current().measure(input),
    edit: (...edit) => current().edit(...edit),
    upscale: (...upscale) => current().upscale(...upscale),
    cutOut: (...cut) => current().cutOut(...cut),
  };
}

/**
 * Makes the same 64×64 PNG for every request, because a benchmark measures the gateway and not
 * sharp.
 */
function createTinyPictures(): Pictures {
  const size = { width: 64, height: 64 };
  let made: Promise<Media> | undefined;
  const tiny = async () =>
    (made ??= draw({ ...size, prompt: 'tiny', seed: 0, index: 0, format: 'png' }));
  return {
    draw: tiny,
    measure: async () => size,
    edit: tiny,
    upscale: tiny,
    cutOut: async () => ({ image: await tiny(), mask: await tiny() }),
  };
}
