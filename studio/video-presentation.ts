/** How finished films are shown (design §7). Size, length and sound are measured, not promised. */
import { z } from 'zod';
import { urlsEnd, type FinishedJob } from './capability.ts';

/** `data` of every video endpoint, described. */
export const videoData = z.object({
  url: z.url(),
  expiresAt: urlsEnd,
  storagePath: z.string(),
  format: z.string(),
  contentType: z.string(),
  durationSeconds: z.number().nullable(),
  width: z.int().nullable(),
  height: z.int().nullable(),
  hasAudio: z.boolean().nullable(),
  model: z.string(),
  metadata: z.record(z.string(), z.unknown()),
});

/** `data` of every video endpoint; `metadata` tells what was asked for. */
export function presentVideo(
  job: FinishedJob,
  metadata: Record<string, unknown>,
): Record<string, unknown> {
  const [artifact] = job.outputs.at(-1)?.artifacts ?? [];
  if (!artifact) return {};
  return {
    url: job.urlOf(artifact),
    expiresAt: job.urlsEndAt,
    storagePath: artifact.storageKey,
    format: artifact.storageKey.slice(artifact.storageKey.lastIndexOf('.') + 1),
    contentType: artifact.contentType,
    durationSeconds: artifact.durationSeconds,
    width: artifact.width,
    height: artifact.height,
    hasAudio: artifact.hasAudio,
    model: job.model,
    metadata,
  };
}
