/** What endpoints make pictures with; the tiny kind serves benchmarks. */
import { draw } from './draw.ts';
import type { Media } from './media.ts';
import { cutOut, editPicture, measure, upscalePicture } from './transform.ts';

/** Real pictures of the size asked for. */
export const fullPictures = {
  draw,
  measure,
  edit: editPicture,
  upscale: upscalePicture,
  cutOut,
};
/** Maker of pictures. */
export type Pictures = typeof fullPictures;

/** One 64×64 PNG, made once, whatever is asked: a benchmark measures the gateway, not sharp. */
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
