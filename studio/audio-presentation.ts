/** How finished audio jobs are shown (spec §4.8, §4.9, design §7). */
import { z } from 'zod';
import { assert } from '../domain/assert.ts';
import { urlsEnd, type FinishedJob } from './capability.ts';
import type { StoredArtifact } from '../jobs/job-plan.ts';

/** A stored recording, described. */
export const recordingData = {
  url: z.url(),
  expiresAt: urlsEnd,
  storagePath: z.string(),
  format: z.string().meta({ example: 'mp3' }),
};

/** The recording that a finished job is about: of several outputs, the one made last. */
export function recordingOf(job: FinishedJob, output = job.outputs.at(-1)): StoredArtifact {
  const [recording] = output?.artifacts ?? [];
  assert(recording, 'a completed audio job has a recording');
  return recording;
}

/** `url`, until when it reads, `storagePath` and `format` of a recording. */
export function presentRecording(job: FinishedJob, recording: StoredArtifact) {
  const { storageKey } = recording;
  return {
    url: job.urlOf(recording),
    expiresAt: job.urlsEndAt,
    storagePath: storageKey,
    format: storageKey.slice(storageKey.lastIndexOf('.') + 1),
  };
}
