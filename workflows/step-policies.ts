/**
 * Policies of the steps of a job: timeouts and retries (docs/decisions/0007). Every activity first
 * reads what its earlier attempts have recorded, because an attempt that timed out may still
 * complete.
 */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/workflow';
import type { CallOnRoute, StepName } from './step.ts';

const backoff = {
  initialInterval: '500ms',
  backoffCoefficient: 2,
  maximumInterval: '20s',
} as const;

/** Policy of a step: first attempt, task queue, and options of its ordinary activity. */
interface StepPolicy extends ActivityOptions {
  /** True if the first attempt is a local activity. A function decides it for each call. */
  startsLocally: boolean | ((call: CallOnRoute) => boolean);
  /** Task queue of the ordinary activity: that of the call's provider, or that of Studio. */
  queue: 'provider' | 'studio';
  /** True if no attempt may start after the deadline or the cancellation of the job. */
  stopsWithJob?: true;
}

/**
 * Policy of the steps that settle a job or mark it as being verified. They are retried for up to
 * seven days. After an outage of the database, the next attempt starts within 30 seconds.
 */
const settlementPolicy: StepPolicy = {
  startsLocally: true,
  queue: 'studio',
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '7 days',
  retry: { ...backoff, maximumInterval: '30s' },
};

/** Policies of all steps. The file steps.ts contains the default timeouts. */
export const stepPolicies: Record<StepName, StepPolicy> = {
  reserve: {
    startsLocally: true,
    queue: 'studio',
    startToCloseTimeout: '20s',
    // The step fails after 40 seconds, so that the caller can retry instead of waiting longer.
    scheduleToCloseTimeout: '40s',
    retry: backoff,
  },
  // The activity limits the attempts that are not accepted (`CallTask.submitAttemptsMax`).
  submit: {
    // A provider that sends no notifications responds only when the result is complete, which takes
    // too long for a local activity.
    startsLocally: ({ route }) => route.notifies,
    queue: 'provider',
    stopsWithJob: true,
    // If the job is canceled while an attempt sends the call, the attempt continues until the
    // outcome of the call is known.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    heartbeatTimeout: '15s',
    retry: backoff,
  },
  // The step waits while a submit is in progress, then reads its record. It calls no provider.
  adopt: { startsLocally: false, queue: 'studio', heartbeatTimeout: '15s', retry: backoff },
  // The step `awaitResume` fails and is retried while the provider is paused. Unlike timers,
  // retries add no events to the workflow's history.
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
  // The timeout of `store` allows 45 seconds to read the result, two minutes for each output, and
  // time to convert them. The activity limits the attempts to read a result; while the gateway's
  // storage is unavailable, it is retried until OUTCOME_WAIT_MS after the deadline. Because of the
  // priority, results are read before waiting checks and submits.
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
