/** Request fields that several capabilities share (spec §4.7, §8), and the shape of a picture as callers name it. */
import { z } from 'zod';

/** Formats a caller may ask for. */
export const imageFormats = ['jpeg', 'png', 'webp'] as const;

/** 3–2000 characters that are not all blank. */
export const promptText = z
  .string()
  .min(3)
  .max(2000)
  .refine((text) => text.trim() !== '', 'must not be blank');

/** 2, 4 or 6. */
export const scaleChoice = z.literal([2, 4, 6]);

/** 0–2147483647. */
export const seedNumber = z.int().min(0).max(2_147_483_647);

/** An http(s) URL, or the id of an uploaded file, that a provider is to read. */
export const mediaUrl = z.union(
  [
    z.url({ protocol: /^https?$/ }).max(4096),
    z
      .string()
      .max(37)
      .regex(/^file_[0-9a-f]{32}$/),
  ],
  { error: 'must be an http(s) URL, or the id of an uploaded file' },
);

/** 1–10 URLs (spec §8). */
export const mediaUrls = z.array(mediaUrl).min(1).max(10);

/** 1–10. */
export const imageCount = z.int().min(1).max(10);

/** The public id of a model; which ones exist is checked, and told, when the request is planned. */
export function modelId(models: readonly { id: string }[], standard: string) {
  return z
    .string()
    .max(100)
    .default(standard)
    .meta({
      // Described, not validated: an unknown model has an error of its own.
      enum: models.map((model) => model.id),
      example: standard,
    });
}

/** What models are asked for; a picture in whole pixels comes close to one of them. */
const named = [
  '1:1',
  '4:3',
  '3:4',
  '3:2',
  '2:3',
  '16:9',
  '9:16',
  '21:9',
  '9:21',
  '5:4',
  '4:5',
  '8:5',
  '5:8',
];
const differenceMax = 0.02;

/** `16:9` of 1360×768; of a shape without a usual name its edges, as short as they can be: `8:5`. */
export function aspectRatioOf({
  width,
  height,
}: {
  width: number | null;
  height: number | null;
}): string | null {
  if (width === null || height === null) return null;
  const like = named.find((name) => {
    const [wide = 0, high = 1] = name.split(':').map(Number);
    return Math.abs((width / height) * (high / wide) - 1) <= differenceMax;
  });
  return like ?? ratioOf(width, height);
}

/** Width to height in lowest terms. */
export function ratioOf(width: number, height: number): string {
  const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b));
  const common = Math.max(1, divisor(width, height));
  return `${width / common}:${height / common}`;
}
