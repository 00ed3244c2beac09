/** What an operator reads while a job runs: the phase of each call, in words, as current details. */
import { setCurrentDetails } from '@temporalio/workflow';
import { creditsFromMicro } from '../domain/credits.ts';
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
  /** A phase of one call, or of the job when `call` is null; a note says more, in words. */
  show: (call: number | null, phase: Phase, note?: string) => void;
  /** An attempt that brought nothing, and why. */
  failed: (call: number, why: string) => void;
}

const words: Record<Phase, string> = {
  reserving: 'reserving the credits',
  waiting_for_provider: 'waiting: the provider is paused',
  submitting: 'submitting to the provider',
  generating: 'the provider works',
  verifying_outcome: 'the outcome is unknown: asking for it',
  canceling: 'canceling at the provider',
  charging: 'charging',
  releasing: 'releasing the credits',
};

/** The last attempts are told, not all of them: a job may be asked for hundreds of times. */
const failuresMax = 10;

/** See `JobProgress`. */
export function createJobProgress(plan: JobPlan): JobProgress {
  const credits = creditsFromMicro(plan.priceMicro);
  const calls = new Map<number, string>();
  const failures: string[] = [];
  let head = '';

  function tell(): void {
    const lines = [...calls].map(([index, line]) => `- call ${index}: ${line}`);
    const tried = failures.length > 0 ? ['', 'Attempts that brought nothing:', ...failures] : [];
    setCurrentDetails([`**${head}**`, '', ...lines, ...tried].join('\n'));
  }
  return {
    show(call, phase, note) {
      const line = note === undefined ? words[phase] : `${words[phase]}, ${note}`;
      if (call !== null) calls.set(call, line);
      head = call === null ? line : `${plan.calls.length} call(s), ${credits} credits reserved`;
      tell();
    },
    failed(call, why) {
      failures.push(`- ${clock(Date.now())} call ${call}: ${why}`);
      if (failures.length > failuresMax) failures.shift();
      tell();
    },
  };
}

/** UTC, to the second. */
export function clock(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(11, 19)} UTC`;
}
