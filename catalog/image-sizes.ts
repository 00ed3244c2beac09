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

/** Pixels of the named sizes of `imageSize` (spec §4.7; fal's `image_size`). */
export const imageSizes = {
  square_hd: { width: 1024, height: 1024 },
  square: { width: 512, height: 512 },
  portrait_4_3: { width: 768, height: 1024 },
  portrait_16_9: { width: 576, height: 1024 },
  landscape_4_3: { width: 1024, height: 768 },
  landscape_16_9: { width: 1024, height: 576 },
} as const;

/** A name of `imageSize`. */
export type ImageSizeName = keyof typeof imageSizes;
