/** How finished image jobs are shown (spec §4.7). */
import { z } from 'zod';
import { aspectRatioOf } from './aspect-ratio.ts';
import { urlsEnd, type FinishedJob } from './capability.ts';

/** A stored picture as callers see it. */
const imageData = z
  .object({
    url: z.url(),
    contentType: z.string(),
    width: z.int().nullable(),
    height: z.int().nullable(),
    expiresAt: urlsEnd,
  })
  .meta({ id: 'Image' });

/** `data` of image generate and edit, described. */
export const imagesData = z.object({
  model: z.string(),
  images: z.array(imageData),
  metadata: z.object({
    outputImages: z.int(),
    prompt: z.string(),
    aspectRatio: z
      .string()
      .nullable()
      .meta({ description: 'The one that was requested, else that of the first picture.' }),
  }),
});

/** `data` of image generate and edit. */
export function presentImages(job: FinishedJob): Record<string, unknown> {
  const images = job.outputs
    .flatMap((call) => call.artifacts)
    .map((artifact) => ({
      url: job.urlOf(artifact),
      contentType: artifact.contentType,
      width: artifact.width,
      height: artifact.height,
      expiresAt: job.urlsEndAt,
    }));
  const [first] = images;
  return {
    model: job.model,
    images,
    metadata: {
      outputImages: images.length,
      prompt: job.request['prompt'],
      aspectRatio: job.request['aspectRatio'] ?? (first ? aspectRatioOf(first) : null),
    },
  };
}
