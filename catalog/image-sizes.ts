/** Aspect ratios and named sizes that the image models take, from the providers' own enums. */

/** Gemini image models. */
export const nanoBananaRatios = [
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

/** Imagen's five ratios, kept for its replacements. */
export const imagenRatios = ['1:1', '16:9', '9:16', '4:3', '3:4'] as const;

/** Grok Imagine. */
export const squareToPhoto = ['1:1', '16:9', '4:3', '3:4', '9:16'] as const;

/** GPT Image 1.x draws three sizes only: public ratio → upstream size. */
export const gptImageSizes = {
  '1:1': '1024x1024',
  '3:2': '1536x1024',
  '2:3': '1024x1536',
} as const;

/** Bounds of a custom size of GPT Image 2 and later: multiples of 16 within these. */
export const gptCustomSize = {
  edgeMaxPixels: 3840,
  areaMinPixels: 655_360,
  areaMaxPixels: 8_294_400,
  ratioMax: 3,
} as const;

/** Named sizes of `imageSize` (spec §4.7); the default is `landscape_4_3`. */
export const imageSizeNames = [
  'square_hd',
  'square',
  'portrait_4_3',
  'portrait_16_9',
  'landscape_4_3',
  'landscape_16_9',
] as const;
