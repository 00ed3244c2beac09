/** Derives the public status, phase and progress of a job from its row. */
import type { JobRecord } from '../../domain/job-record.ts';
import type { JobResource } from './job-resource.ts';

/**
 * Returns the public status of a job: `in_progress` as soon as its first call may have been sent.
 */
export function toPublicStatus(job: JobRecord): JobResource['status'] {
  if (job.status !== 'open') return job.status;
  return job.started_at === null ? 'queued' : 'in_progress';
}

/** Returns the phase of a job from the states of its calls. */
export function derivePhase(job: JobRecord): JobResource['phase'] {
  if (job.status !== 'open') return 'done';
  if (job.verifying) return 'verifying_outcome';
  const states = job.call_states ?? [];
  if (states.length === 0) return 'queued';
  if (states.includes('begun')) return 'submitting';
  // A call in state `waiting` has not been sent, because its provider is paused.
  if (states.includes('waiting')) return 'waiting_for_provider';
  return states.every((state) => state === 'storing' || state === 'answered')
    ? 'storing'
    : 'generating';
}

/** Estimates the progress of a job from the typical duration of its model. */
export function estimateProgress(job: JobRecord): JobResource['progress'] {
  if (job.status !== 'open' || job.started_at === null) return null;
  const { typical_seconds: typicalSeconds, queue_position: queuePosition } = job;
  if (typicalSeconds === null) return { queuePosition, share: null, etaSeconds: null };
  const elapsedSeconds = Math.max(0, Date.now() - job.started_at) / 1000;
  return {
    queuePosition,
    share: Math.round(Math.min(1, elapsedSeconds / typicalSeconds) * 100) / 100,
    etaSeconds: Math.ceil(Math.max(0, typicalSeconds - elapsedSeconds)),
  };
}
