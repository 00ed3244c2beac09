/** Request fields that several image capabilities share (spec §4.7, §8). */
import { z } from 'zod';

/** Formats a caller may ask for. */
export const imageFormats = ['jpeg', 'png', 'webp'] as const;

/** 3–2000 characters. */
export const promptText = z.string().min(3).max(2000);

/** 0–2147483647. */
export const seedNumber = z.int().min(0).max(2_147_483_647);

/** An http(s) URL that the provider is to read; the network guard decides when it is fetched. */
export const pictureUrl = z
  .url({ protocol: /^https?$/, error: 'must be an http(s) URL' })
  .max(4096);

/** The public id of a model; which ones exist is checked, and told, when the request is planned. */
export function modelId(models: readonly { id: string }[], standard: string) {
  return z
    .string()
    .max(100)
    .default(standard)
    .meta({
      description: `One of: ${models.map((model) => model.id).join(', ')}`,
      example: standard,
    });
}
