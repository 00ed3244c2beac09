/** Request fields that several capabilities share (spec §4.7–§4.9, §8). */
import { z } from 'zod';
import type { Limit } from '../catalog/audio-models.ts';
import { voices } from '../catalog/voices.ts';

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

/** A text within a limit that holds more than white space. */
export function textOf({ min, max }: Limit) {
  return z.string().min(min).max(max).regex(/\S/u, 'must contain more than white space');
}

/** A number within a limit. */
export function numberOf({ min, max }: Limit) {
  return z.number().min(min).max(max);
}

/** A number within a limit, with its preset. */
export function presetNumberOf(limit: Limit & { preset: number }) {
  return numberOf(limit).default(limit.preset);
}

/** A voice of the list (spec §4.8). */
export const voiceName = z
  .enum(voices.map((voice) => voice.name))
  .meta({ description: 'One of the 23 voices.', example: 'rachel' });

/** Asks for 202 at once. */
export const asyncFlag = z.boolean().optional();

/**
 * Bytes of JSON that a part of a request may have, so that a job plan, which holds it twice (as the
 * request and as a provider's input), stays below the 64 KB that enter a workflow's history.
 */
const planBytesMax = 28_000;

/** Whether a value fits into a job plan. */
export function fitsIntoPlan(value: unknown): boolean {
  return Buffer.byteLength(JSON.stringify(value)) <= planBytesMax;
}
