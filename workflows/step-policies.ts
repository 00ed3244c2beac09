/**
 * Policies of the steps of a job (docs/decisions/0007). Activities are idempotent by their records,
 * because an attempt that timed out may still complete.
 */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/workflow';
import type { StepCall, Verb } from './step.ts';

const backoff = {
  initialInterval: '500ms',
  backoffCoefficient: 2,
  maximumInterval: '20s',
} as const;

/** Policy of a step, with the options of its ordinary activity. */
interface Policy extends ActivityOptions {
  /** Whether the first attempt is a local activity; a function decides by the call. */
  startsLocally: boolean | ((call: StepCall) => boolean);
  /** Task queue of the ordinary activity: that of the call's provider, or that of the workflow. */
  queue: 'provider' | 'studio';
  /** True if no attempt starts after the job's deadline or after a cancel of the job. */
  stopsWithJob?: true;
}

/**
 * Policy of settlements: they are retried for days, and succeed within half a minute after an
 * outage.
 */
const settling: Policy = {
  startsLocally: true,
  queue: 'studio',
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '7 days',
  retry: { ...backoff, maximumInterval: '30s' },
};

/** Policies by step; defaults of their timeouts are in steps.ts. */
export const policies: Record<Verb, Policy> = {
  reserve: {
    startsLocally: true,
    queue: 'studio',
    startToCloseTimeout: '20s',
    // After half a minute, a retry by the caller is better than a longer wait.
    scheduleToCloseTimeout: '40s',
    retry: backoff,
  },
  // The number of refusals is limited by the activity (`CallTask.refusalsMax`).
  submit: {
    // A provider without notifications responds with the result, after the whole work.
    startsLocally: ({ route }) => route.notifies,
    queue: 'provider',
    stopsWithJob: true,
    // An attempt that is sending the call when the job is canceled ends by itself.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    heartbeatTimeout: '15s',
    retry: backoff,
  },
  // The activity reads the record of a submit and calls no provider; it waits while that submit is
  // in progress.
  adopt: { startsLocally: false, queue: 'studio', heartbeatTimeout: '15s', retry: backoff },
  // The activity fails while the provider is paused, until the workflow cancels it: failed attempts
  // add no history events.
  awaitResume: {
    startsLocally: false,
    queue: 'studio',
    startToCloseTimeout: '20s',
    scheduleToCloseTimeout: '7 days',
    retry: { initialInterval: '1 minute', backoffCoefficient: 1 },
  },
  check: {
    startsLocally: true,
    queue: 'provider',
    startToCloseTimeout: '50s',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
  },
  // 45 seconds for the result, two minutes to read each output, and the time to convert them. A
  // result has priority over the checks and submits that wait on the provider's queue.
  store: {
    startsLocally: ({ call }) => call.output.medium !== 'video',
    queue: 'provider',
    startToCloseTimeout: '5 minutes',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
    priority: { priorityKey: 2 },
  },
  cancel: {
    startsLocally: true,
    queue: 'provider',
    startToCloseTimeout: '50s',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
  },
  assemble: {
    startsLocally: true,
    queue: 'studio',
    startToCloseTimeout: '5 minutes',
    scheduleToCloseTimeout: '15 minutes',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumInterval: '30s' },
  },
  charge: settling,
  release: settling,
  markVerifying: settling,
};
