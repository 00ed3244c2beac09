/** How one finished picture of a tool is shown, kept or short-lived (`persistToStorage`). */
import { z } from 'zod';
import type { JsonObject } from '../domain/json.ts';
import { urlsEnd, type FinishedJob } from './capability.ts';
import type { StoredArtifact } from '../jobs/job-plan.ts';

/** A picture of a tool, described; `service` and `model` say what made it. */
export const shownPictureData = z.object({
  url: z.url().nullable().meta({ description: 'null once a result that was not kept has ended' }),
  imageUrl: z.url().nullable().meta({ description: 'the same as `url`' }),
  contentType: z.string(),
  width: z.int().nullable(),
  height: z.int().nullable(),
  model: z.string().nullable(),
  persisted: z.boolean(),
  storagePath: z.string().nullable(),
  expiresAt: urlsEnd,
});

/** Where a result can be read, until when, and where it is stored if it is kept. */
export interface ShownPicture {
  url: string | null;
  persisted: boolean;
  storagePath: string | null;
  /** ISO 8601; a kept result gets a new URL with every answer. */
  expiresAt: string;
}

/** Whether a tool's result is to be kept. */
export function isPersisted(request: JsonObject): boolean {
  return request['persistToStorage'] === true;
}

/** See `ShownPicture`. */
export function showPicture(job: FinishedJob, artifact: StoredArtifact): ShownPicture {
  const persisted = isPersisted(job.request);
  return {
    url: job.urlsHaveEnded ? null : job.urlOf(artifact),
    persisted,
    storagePath: persisted ? artifact.storageKey : null,
    expiresAt: job.urlsEndAt,
  };
}
