/**
 * Presents finished jobs (spec §4.7–§4.10): pictures, videos and recordings, with measured sizes
 * and durations.
 */
import { z } from 'zod';
import { assert } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { StoredArtifact } from '../../domain/job-plan.ts';
import { contentCredentials } from '../../domain/job-record.ts';
import { findAspectRatio } from './image-calls.ts';
import type { FinishedJob } from './capability.ts';

/** Schema of the time at which a result's URLs expire. */
export const urlExpiry = z.iso
  .datetime()
  .meta({ description: 'Time at which the URLs expire; each response signs them again.' });

/** Schema fields of a stored video or recording. */
export const storedFileData = {
  url: z.url(),
  expiresAt: urlExpiry,
  storagePath: z.string(),
  format: z.string().meta({ example: 'mp3' }),
  contentCredentials,
};

/** Presents a stored video or recording: its URL, expiry, storage path and format. */
export function presentFile(job: FinishedJob, artifact: StoredArtifact) {
  const { storageKey } = artifact;
  return {
    url: job.urlOf(artifact),
    expiresAt: job.urlsExpireAt,
    storagePath: storageKey,
    format: storageKey.slice(storageKey.lastIndexOf('.') + 1),
    contentCredentials: artifact.contentCredentials,
  };
}

/** Returns the first artifact of an output, the recording of a finished audio job. */
export function getRecording(job: FinishedJob, output = job.outputs.at(-1)): StoredArtifact {
  const [recording] = output?.artifacts ?? [];
  assert(recording, 'a completed audio job has no recording');
  return recording;
}

/** Schema of the `data` of every video endpoint. */
export const videoData = z.object({
  ...storedFileData,
  format: z.string(),
  contentType: z.string(),
  durationSeconds: z.number().nullable(),
  width: z.int().nullable(),
  height: z.int().nullable(),
  hasAudio: z.boolean().nullable(),
  model: z.string(),
  metadata: z.record(z.string(), z.unknown()),
});

/** Builds the `data` of every video endpoint. `metadata` contains the request's parameters. */
export function presentVideo(
  job: FinishedJob,
  metadata: Record<string, unknown>,
): Record<string, unknown> {
  const [artifact] = job.outputs.at(-1)?.artifacts ?? [];
  if (!artifact) return {};
  return {
    ...presentFile(job, artifact),
    contentType: artifact.contentType,
    durationSeconds: artifact.durationSeconds,
    width: artifact.width,
    height: artifact.height,
    hasAudio: artifact.hasAudio,
    model: job.model,
    metadata,
  };
}

/** Schema of a stored picture. */
const imageData = z
  .object({
    url: z.url(),
    contentType: z.string(),
    width: z.int().nullable(),
    height: z.int().nullable(),
    contentCredentials,
    expiresAt: urlExpiry,
  })
  .meta({ id: 'Image' });

/** Schema of the `data` of image/generate and image/edit. */
export const imagesData = z.object({
  model: z.string(),
  images: z.array(imageData),
  metadata: z.object({
    outputImages: z.int(),
    prompt: z.string(),
    aspectRatio: z.string().nullable().meta({
      description: 'Requested aspect ratio; if none was requested, the ratio of the first image.',
    }),
  }),
});

/** Builds the `data` of image/generate and image/edit. */
export function presentImages(job: FinishedJob): Record<string, unknown> {
  const images = job.outputs
    .flatMap((call) => call.artifacts)
    .map((artifact) => ({
      url: job.urlOf(artifact),
      contentType: artifact.contentType,
      width: artifact.width,
      height: artifact.height,
      contentCredentials: artifact.contentCredentials,
      expiresAt: job.urlsExpireAt,
    }));
  const [firstImage] = images;
  return {
    model: job.model,
    images,
    metadata: {
      outputImages: images.length,
      prompt: job.request['prompt'],
      aspectRatio: job.request['aspectRatio'] ?? (firstImage ? findAspectRatio(firstImage) : null),
    },
  };
}

/** Schema of the `data` of tools that process one picture. */
export const pictureToolData = z.object({
  url: z.url().nullable().meta({
    description: 'URL of the picture; null once a result that was not persisted has expired.',
  }),
  imageUrl: z.url().nullable().meta({ description: 'Same value as `url`.' }),
  contentType: z.string(),
  width: z.int().nullable(),
  height: z.int().nullable(),
  contentCredentials,
  model: z.string().nullable(),
  persisted: z.boolean(),
  storagePath: z.string().nullable(),
  expiresAt: urlExpiry,
});

/**
 * Returns whether the result of a picture tool is persisted: only if `persistToStorage` is true.
 */
export function isPersisted(request: JsonObject): boolean {
  return request['persistToStorage'] === true;
}

/**
 * Presents the picture from the last step of a tool, with its URL and the time at which the URL
 * expires. A persisted picture has a storage path, and gets a new URL in every response.
 */
export function presentPicture(job: FinishedJob) {
  const [artifact] = job.outputs.at(-1)?.artifacts ?? [];
  if (!artifact) return {};
  const persisted = isPersisted(job.request);
  const url = job.urlsHaveExpired ? null : job.urlOf(artifact);
  return {
    url,
    imageUrl: url,
    contentType: artifact.contentType,
    width: artifact.width,
    height: artifact.height,
    contentCredentials: artifact.contentCredentials,
    model: job.model,
    persisted,
    storagePath: persisted ? artifact.storageKey : null,
    expiresAt: job.urlsExpireAt,
  };
}
