/** How finished image jobs are shown (spec §4.7): pictures that were drawn, and the one picture of a tool. */
import { z } from 'zod';
import { aspectRatioOf } from './image-fields.ts';
import { urlsEnd, type FinishedJob } from './capability.ts';
import type { JsonObject } from '../domain/json.ts';

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

/** A picture of a tool, described; `service` and `model` say what made it. */
export const shownPictureData = z.object({
  url: z.url().nullable().meta({ description: 'null once a result that was not kept has expired' }),
  imageUrl: z.url().nullable().meta({ description: 'the same as `url`' }),
  contentType: z.string(),
  width: z.int().nullable(),
  height: z.int().nullable(),
  model: z.string().nullable(),
  persisted: z.boolean(),
  storagePath: z.string().nullable(),
  expiresAt: urlsEnd,
});

/** Whether a tool's result is to be kept. */
export function isPersisted(request: JsonObject): boolean {
  return request['persistToStorage'] === true;
}

/**
 * The last picture of a tool, as steps before it are not what was asked for: where it can be read and until when
 * (a kept one gets a new URL with every answer), and where it is stored if it is kept.
 */
export function showPicture(job: FinishedJob) {
  const [artifact] = job.outputs.at(-1)?.artifacts ?? [];
  if (!artifact) return {};
  const persisted = isPersisted(job.request);
  const url = job.urlsHaveEnded ? null : job.urlOf(artifact);
  return {
    url,
    imageUrl: url,
    contentType: artifact.contentType,
    width: artifact.width,
    height: artifact.height,
    model: job.model,
    persisted,
    storagePath: persisted ? artifact.storageKey : null,
    expiresAt: job.urlsEndAt,
  };
}
