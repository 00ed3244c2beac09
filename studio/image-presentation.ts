/** How finished image jobs are shown (spec §4.7). */
import type { FinishedJob } from './capability.ts';

/** `data` of image generate and edit. */
export function presentImages(job: FinishedJob): Record<string, unknown> {
  const images = job.outputs
    .flatMap((call) => call.artifacts)
    .map((artifact) => ({
      url: job.urlOf(artifact),
      contentType: artifact.contentType,
      width: artifact.width,
      height: artifact.height,
    }));
  return {
    model: job.model,
    images,
    metadata: {
      outputImages: images.length,
      prompt: job.request['prompt'],
      aspectRatio: job.request['aspectRatio'] ?? null,
    },
  };
}
