/** Pictures of the endpoints; the tiny kind is for benchmarks. */
import { draw } from './draw.ts';
import type { Media } from './media.ts';
import { cutOut, editPicture, measure, upscalePicture } from './transform.ts';

/** Makes pictures with the requested size. */
export const fullPictures = {
  draw,
  measure,
  edit: editPicture,
  upscale: upscalePicture,
  cutOut,
};
/** Maker of pictures. */
export type Pictures = typeof fullPictures;

/**
 * Makes the same 64×64 PNG for every request, because a benchmark measures the gateway and not
 * sharp.
 */
export function createTinyPictures(): Pictures {
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
