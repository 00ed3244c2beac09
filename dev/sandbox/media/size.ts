/** Calculates image sizes in pixels from the fields of a request. */

/** Width and height in pixels. */
export interface Size {
  width: number;
  height: number;
}

/** Names of fal's `image_size` values, as documented. */
export const presetNames = [
  'square_hd',
  'square',
  'portrait_4_3',
  'portrait_16_9',
  'landscape_4_3',
  'landscape_16_9',
] as const;

/** Sizes for fal's `image_size` values. */
export const sizePresets: Record<(typeof presetNames)[number], Size> = {
  square_hd: { width: 1024, height: 1024 },
  square: { width: 512, height: 512 },
  portrait_4_3: { width: 768, height: 1024 },
  portrait_16_9: { width: 576, height: 1024 },
  landscape_4_3: { width: 1024, height: 768 },
  landscape_16_9: { width: 1024, height: 576 },
};

const resolutionScales: Record<string, number> = { '0.5K': 0.5, '1K': 1, '2K': 2, '4K': 4 };

function toMultiple(value: number, step: number): number {
  return Math.max(step, Math.round(value / step) * step);
}

/**
 * Calculates a size for an aspect ratio (`"16:9"`, or width / height): about one megapixel at 1K, four at 2K. Edges are
 * multiples of 16 at 1K, so a ratio has the same shape at every resolution.
 */
export function calculateSize(aspect: string | number, resolution = '1K'): Size {
  const scale = resolutionScales[resolution.toUpperCase()] ?? 1;
  const [across = 1, down = 1] =
    typeof aspect === 'number' ? [aspect, 1] : aspect.split(':').map(Number);
  const ratio = across / down;
  const width = toMultiple(Math.sqrt(ratio) * 1024, 16);
  const height = toMultiple(1024 / Math.sqrt(ratio), 16);
  return { width: width * scale, height: height * scale };
}

/** Parses a size such as `"1536x1024"`. */
export function parseSize(text: string): Size {
  const [width = 1024, height = 1024] = text.split('x').map(Number);
  return { width, height };
}

/** Enlarges a size to at least this many pixels, keeping its shape. */
export function atLeastPixels(size: Size, pixels: number): Size {
  const missing = pixels / (size.width * size.height);
  if (missing <= 1) return size;
  const factor = Math.sqrt(missing);
  return { width: Math.ceil(size.width * factor), height: Math.ceil(size.height * factor) };
}
