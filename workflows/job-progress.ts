/** What an operator reads while a job runs: the phase of each call, in words, as current details. */
import { setCurrentDetails } from '@temporalio/workflow';
import type { JobPlan } from '../studio/job-plan.ts';

/** Where a call, or the whole job, stands. */
export type Phase =
  | 'reserving'
  | 'waiting_for_provider'
  | 'submitting'
  | 'generating'
  | 'verifying_outcome'
  | 'canceling'
  | 'charging'
  | 'releasing';

/** Shows phases in the Temporal UI; costs no history event. */
export interface JobProgress {
  /** A phase of one call, or of the job when `call` is null. */
  show: (call: number | null, phase: Phase) => void;
}

/** See `JobProgress`. */
export function createJobProgress(plan: JobPlan): JobProgress {
  const phases = new Map<number, Phase>();
  return {
    show(call, phase) {
      if (call !== null) phases.set(call, phase);
      const lines = [...phases].map(([index, word]) => `- call ${index}: ${word}`);
      const head = call === null ? `**${phase}**` : `**${plan.calls.length} call(s)**`;
      setCurrentDetails([head, '', ...lines].join('\n'));
    },
  };
}
