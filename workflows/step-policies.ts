/**
 * Timeouts and retry policies of the steps of a job (docs/decisions/0007). Every activity first
 * reads what earlier attempts recorded, because an attempt that timed out may still complete.
 */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/workflow';
import type { CallOnRoute, StepName } from './step.ts';

const backoff = {
  initialInterval: '500ms',
  backoffCoefficient: 2,
  maximumInterval: '20s',
} as const;

/** Policy of a step: where it runs, and the options of its ordinary activity. */
interface StepPolicy extends ActivityOptions {
  /** True if the first attempt is a local activity, or a function that returns this for a call. */
  startsLocally: boolean | ((call: CallOnRoute) => boolean);
  /** Task queue of the ordinary activity: the queue of the call's provider, or the Studio queue. */
  queue: 'provider' | 'studio';
  /** True if no attempt may start after the job's deadline or its cancellation. */
  stopsWithJob?: true;
}

/**
 * Policy of steps that write to the database. They are retried for days, and succeed at most 30
 * seconds after an outage ends.
 */
const settlementPolicy: StepPolicy = {
  startsLocally: true,
  queue: 'studio',
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '7 days',
  retry: { ...backoff, maximumInterval: '30s' },
};

/** Policy of each step. steps.ts contains the default timeouts. */
export const policies: Record<StepName, StepPolicy> = {
  reserve: {
    startsLocally: true,
    queue: 'studio',
    startToCloseTimeout: '20s',
    // After 40 seconds it is better that the caller retries than that the caller waits longer.
    scheduleToCloseTimeout: '40s',
    retry: backoff,
  },
  // The activity itself limits the number of submits (`CallTask.submitAttemptsMax`).
  submit: {
    // A provider without notifications responds only when the result is complete, which takes too
    // long for a local activity.
    startsLocally: ({ route }) => route.notifies,
    queue: 'provider',
    stopsWithJob: true,
    // If the job is canceled while an attempt sends the call, the attempt continues until it has an
    // outcome.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    heartbeatTimeout: '15s',
    retry: backoff,
  },
  // Reads the record of the submit, and waits while the submit is in progress; calls no provider.
  adopt: { startsLocally: false, queue: 'studio', heartbeatTimeout: '15s', retry: backoff },
  // Fails and is retried as long as the provider is paused. Retries, unlike timers, add no events
  // to the workflow's history.
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
  // Allows 45 seconds to read the result, two minutes to read each output, and time to convert the
  // outputs. The activity itself limits how often it reads a result in vain; while the gateway's
  // storage is unavailable, it is retried until OUTCOME_WAIT_MS after the deadline. The priority
  // places results ahead of waiting checks and submits on the provider's task queue.
  store: {
    startsLocally: ({ call }) => call.output.medium !== 'video',
    queue: 'provider',
    startToCloseTimeout: '5 minutes',
    heartbeatTimeout: '15s',
    retry: backoff,
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
  charge: settlementPolicy,
  release: settlementPolicy,
  markVerifying: settlementPolicy,
};
