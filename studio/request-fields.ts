/** Request fields that several capabilities share (spec §4.7–§4.9, §8). */
import { z } from 'zod';
import type { Limit } from '../catalog/audio-models.ts';
import { voices } from '../catalog/voices.ts';

/** Output formats that a caller may request. */
export const imageFormats = ['jpeg', 'png', 'webp'] as const;

/** Prompt of 3–2000 characters that are not all white space. */
export const promptText = z
  .string()
  .min(3)
  .max(2000)
  .refine((text) => text.trim() !== '', 'must not be blank');

/** Scale factor: 2, 4 or 6. */
export const scaleChoice = z.literal([2, 4, 6]);

/** Seed of 0–2147483647. */
export const seedNumber = z.int().min(0).max(2_147_483_647);

/** Input of a request: an http(s) URL or the id of an uploaded file. */
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

/** List of 1–10 inputs (spec §8). */
export const mediaUrls = z.array(mediaUrl).min(1).max(10);

/** Number of images, 1–10. */
export const imageCount = z.int().min(1).max(10);

/** Public id of a model; the plan rejects an unknown one with a list of the known ones. */
export function modelId(models: readonly { id: string }[], standard: string) {
  return z
    .string()
    .max(100)
    .default(standard)
    .meta({
      // Only described here, because an unknown model has its own error code.
      enum: models.map((model) => model.id),
      example: standard,
    });
}

/** Makes the schema of a text with a length limit that is not only white space. */
export function textOf({ min, max }: Limit) {
  return z.string().min(min).max(max).regex(/\S/u, 'must contain more than white space');
}

/** Makes the schema of a number with limits. */
export function numberOf({ min, max }: Limit) {
  return z.number().min(min).max(max);
}

/** Makes the schema of a number with limits and a default. */
export function presetNumberOf(limit: Limit & { preset: number }) {
  return numberOf(limit).default(limit.preset);
}

/** Name of a voice of the list (spec §4.8). */
export const voiceName = z
  .enum(voices.map((voice) => voice.name))
  .meta({ description: 'One of the 23 voices.', example: 'rachel' });

/** Flag of an asynchronous request, which gets 202 immediately. */
export const asyncFlag = z.boolean().optional();

/**
 * Maximum size of a part of a request in bytes of JSON. A job plan contains it twice (in the request and in a
 * provider's input) and must stay below the 64 KB that may enter a workflow's history.
 */
const planBytesMax = 28_000;

/** Checks whether a value fits into a job plan. */
export function fitsIntoPlan(value: unknown): boolean {
  return Buffer.byteLength(JSON.stringify(value)) <= planBytesMax;
}
