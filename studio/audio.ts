/** What audio capabilities share: request fields, and how a recording is shown (spec §4.8, §4.9, §8, design §7). */
import { z } from 'zod';
import type { Limit } from '../catalog/audio-models.ts';
import { voices } from '../catalog/voices.ts';
import { assert } from '../domain/errors.ts';
import { urlsEnd, type FinishedJob } from './capability.ts';
import type { StoredArtifact } from '../jobs/job-plan.ts';

/** A text within a limit that holds more than white space. */
export function textOf({ min, max }: Limit) {
  return z.string().min(min).max(max).regex(/\S/u, 'must hold more than white space');
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
