/** What endpoints make pictures with; the tiny kind serves benchmarks. */
import { draw, type Drawing, type PictureFormat } from './draw.ts';
import type { Media, MediaInput } from './media.ts';
import type { Size } from './size.ts';
import {
  cutOut,
  editPicture,
  measure,
  upscalePicture,
  type CutOut,
  type Edit,
} from './transform.ts';

/** Maker of pictures. */
export interface Pictures {
  draw: (drawing: Drawing) => Promise<Media>;
  measure: (input: MediaInput) => Promise<Size>;
  edit: (edit: Edit) => Promise<Media>;
  upscale: (
    input: MediaInput,
    options: { factor: number; format: PictureFormat },
  ) => Promise<Media>;
  cutOut: (
    input: MediaInput,
    options: { operatingEdge: number; format: PictureFormat },
  ) => Promise<CutOut>;
}

/** Real pictures of the size asked for. */
export const fullPictures: Pictures = {
  draw,
  measure,
  edit: editPicture,
  upscale: upscalePicture,
  cutOut,
};

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
