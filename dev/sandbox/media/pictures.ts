/** Image functions for the endpoints: the full ones, or tiny images for benchmarks and most tests. */
import { draw } from './draw.ts';
import type { Media, MediaSize } from './media.ts';
import { cutOut, editPicture, measure, upscalePicture } from './transform.ts';

const fullPictures = {
  draw,
  measure,
  edit: editPicture,
  upscale: upscalePicture,
  cutOut,
};
/** Functions that draw, edit and read images. */
export type Pictures = typeof fullPictures;

/** Creates the image functions; while `size.tiny` is set, they return tiny images. */
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

/** Creates functions that return the same 64×64 PNG for every request, so that they use little CPU. */
function createTinyPictures(): Pictures {
  const size = { width: 64, height: 64 };
  let image: Promise<Media> | undefined;
  const tiny = async () =>
    (image ??= draw({ ...size, prompt: 'tiny', seed: 0, index: 0, format: 'png' }));
  return {
    draw: tiny,
    measure: async () => size,
    edit: tiny,
    upscale: tiny,
    cutOut: async () => ({ image: await tiny(), mask: await tiny() }),
  };
}
