/** The activities of a Studio job, with their timeouts and retries. Every one has an end (T7). */
import {
  ActivityFailure,
  ApplicationFailure,
  proxyActivities,
  proxyLocalActivities,
  type ActivityOptions,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import { wordOf, type ActivityWord } from '../domain/activity-word.ts';
import type { JobPlan, PlannedCall } from '../studio/job-plan.ts';

type JobMoves = Pick<Activities, 'reserveJob' | 'settleJob' | 'markVerifying'>;
type ProviderCalls = Pick<Activities, 'submitCall' | 'collectCall' | 'cancelCall'>;

/**
 * A submit, or a whole quick job, in the workflow task: one attempt, for whatever does not work at once
 * is done part by part. Longer than the submit of any provider that queues work itself.
 */
export const atOnce = proxyLocalActivities<
  Pick<Activities, 'submitCallAtOnce' | 'reserveSubmitCharge'>
>({
  startToCloseTimeout: '90s',
  scheduleToCloseTimeout: '90s',
  retry: { maximumAttempts: 1 },
});

/** Admission must be quick: after half a minute the caller is better told to come back. */
export const admission = proxyLocalActivities<Pick<JobMoves, 'reserveJob'>>({
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '40s',
  retry: { initialInterval: '100ms', backoffCoefficient: 2, maximumInterval: '5s' },
});

/** Once reserved, the only way is to a settlement: it is tried for days. */
export const settlement = proxyLocalActivities<Pick<JobMoves, 'settleJob' | 'markVerifying'>>({
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '7 days',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '30s' },
});

/** Work on stored artifacts, on the Studio queue; after its last attempt the job is released. */
export const assembly = proxyActivities<Pick<Activities, 'assembleOutputs'>>({
  startToCloseTimeout: '5 minutes',
  scheduleToCloseTimeout: '15 minutes',
  heartbeatTimeout: '15s',
  retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '30s' },
  summary: 'assemble',
});

/** Attempts at a submit that was certainly not taken, before the next route is tried. */
const submitAttemptsMax = 4;
/** Without another route to try, a provider may take a quarter of a minute to come back. */
const lastSubmitAttemptsMax = 6;
const collectAttemptsMax = 6;

/** Provider activities of one call, on its provider's queue. */
export function callActivities(
  plan: JobPlan,
  call: PlannedCall,
  routeIndex: number,
): ProviderCalls {
  const retry = {
    initialInterval: '500ms',
    backoffCoefficient: 2,
    maximumInterval: '20s',
  } as const;
  const common = {
    startToCloseTimeout: '10 minutes',
    scheduleToCloseTimeout: plan.deadlineMs + plan.outcomeWaitMs,
  } as const;
  const isLast = routeIndex === call.routes.length - 1;
  const submits = {
    ...retry,
    maximumAttempts: isLast ? lastSubmitAttemptsMax : submitAttemptsMax,
  };
  const looks = { ...retry, maximumAttempts: collectAttemptsMax };
  const queued: ActivityOptions = {
    ...common,
    taskQueue: call.routes[routeIndex]?.taskQueue ?? '',
    heartbeatTimeout: '15s',
    priority: { fairnessKey: plan.organizationId },
  };
  return callsOf(
    proxyActivities<ProviderCalls>({ ...queued, retry: submits, summary: 'submit' }),
    proxyActivities<ProviderCalls>({ ...queued, retry: looks, summary: 'look and store' }),
  );
}

/** Takes each activity from its proxy by name: a proxy has no keys of its own to spread. */
function callsOf(submitting: ProviderCalls, looking: ProviderCalls): ProviderCalls {
  const { submitCall } = submitting;
  const { collectCall, cancelCall } = looking;
  return { submitCall, collectCall, cancelCall };
}

/** What a failed activity said, local or not. */
export function failureOf(error: unknown): ActivityWord {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) return wordOf(cause);
  const message = error instanceof Error ? error.message : String(error);
  return { type: null, message, final: false, retryAfterMs: null };
}
