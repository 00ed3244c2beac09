/** How one finished picture of a tool is shown, kept or short-lived (`persistToStorage`). */
import { z } from 'zod';
import type { JsonObject } from '../domain/json.ts';
import { urlsEnd, type FinishedJob } from './capability.ts';

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
