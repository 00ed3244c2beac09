/** Reads the calls of jobs, and describes their states to callers and operators. */
import { sql } from 'slonik';
import { z } from 'zod';
import { formatAgo } from '../../domain/durations.ts';
import { pipelineStepId } from '../../domain/job-record.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { providerOperation } from '../../providers/provider.ts';
import { providerDefinitions } from '../../providers/provider-registry.ts';

const providerErrorType = z
  .string()
  .nullable()
  .meta({ description: 'Provider’s own type or code of the error; null if it sent none.' });

/** Schema of a provider call. */
export const jobCall = z.object({
  jobId: z.string(),
  index: z.int(),
  step: pipelineStepId,
  routeIndex: z.int(),
  provider: z.string(),
  /** Endpoint of the provider, for example fal's endpoint id; null if it was not recorded. */
  providerEndpoint: z.string().nullable(),
  state: z.enum(['waiting', 'begun', 'not_accepted', 'accepted', 'answered', 'unknown']),
  operation: providerOperation.nullable(),
  providerRequestId: z.string().nullable(),
  providerErrorType,
  /**
   * Attempts that the provider did not accept, oldest first. The call was sent again after each
   * attempt except possibly the last.
   */
  unacceptedSubmits: z.array(
    z.object({
      routeIndex: z.int(),
      provider: z.string(),
      providerRequestId: z.string().nullable(),
      providerErrorType,
      message: z.string(),
      failedAtMs: z.number(),
    }),
  ),
  /** Time at which the call first waited for a paused provider; null if it never waited. */
  pausedAtMs: z.number().nullable(),
  /** Number of times that the call was sent; repeated only if it was not accepted. */
  attempts: z.int(),
  begunAtMs: z.number(),
  acceptedAtMs: z.number().nullable(),
  answeredAtMs: z.number().nullable(),
  /** Time of the first notification of the provider. */
  notifiedAtMs: z.number().nullable(),
  /** Time of the first notification after the end of the workflow; null if none arrived. */
  lateNotificationAtMs: z.number().nullable(),
  /** Id of the provider operation in the latest notification. */
  notifiedOperationId: z.string().nullable(),
  updatedAtMs: z.number(),
  /** Pause of the provider; null if it is not paused. */
  pause: z.object({ actor: z.string(), reason: z.string(), sinceMs: z.number() }).nullable(),
});
export type JobCall = z.infer<typeof jobCall>;

/** Creates the function that lists the calls of jobs, ordered by job and call index. */
export function createReadCalls(pool: DatabasePool) {
  return (jobIds: readonly string[]): Promise<readonly JobCall[]> =>
    pool.any(sql.type(jobCall)`
      SELECT job_id AS "jobId", call_index AS index, step, route_index AS "routeIndex", provider,
        provider_endpoint AS "providerEndpoint", state, operation,
        provider_request_id AS "providerRequestId", provider_error_type AS "providerErrorType",
        unaccepted_submits AS "unacceptedSubmits", attempts, paused_at AS "pausedAtMs",
        begun_at AS "begunAtMs", accepted_at AS "acceptedAtMs", answered_at AS "answeredAtMs",
        notified_at AS "notifiedAtMs", late_notification_at AS "lateNotificationAtMs",
        notified_operation_id AS "notifiedOperationId", updated_at AS "updatedAtMs", pause
      FROM job_call WHERE job_id = ANY(${sql.array([...jobIds], 'text')}) ORDER BY job_id, call_index`);
}

/** Time after which a submit that a provider should confirm at once counts as unconfirmed. */
const confirmationMs = 5000;

/** Description of the state of a call. */
interface CallDescription {
  /** True while it is unknown whether the provider accepted, or delivers, the call. */
  outcomeUnknown: boolean;
  /** Sentence for callers. */
  forCallers: string;
  /** Clause for operators, with times and ids. */
  forOperators: string;
}

/** Describes the state of a call of an open job. `verifying`: the outcome of the job is being verified. */
export function describeCall(call: JobCall, verifying: boolean): CallDescription {
  const { index, step, provider, attempts, pause, providerRequestId } = call;
  const ofStep = step === null ? '' : ` of the step ${step}`;
  const part = step === null ? 'call' : `step ${step}`;
  const name = `call ${index + 1}${step === null ? '' : ` (${step})`}`;
  const requestId = providerRequestId === null ? '' : ` (${providerRequestId})`;
  const working = `${provider} is working on ${step === null ? 'it' : `the ${part}`}.`;
  const unconfirmed = `${provider} has not confirmed the call${ofStep}. It is not sent again.`;
  const begunAgo = formatAgo(call.begunAtMs);
  const updatedAgo = formatAgo(call.updatedAtMs);
  switch (call.state) {
    case 'waiting':
      return {
        outcomeUnknown: false,
        forCallers: `The ${part} waits until ${provider} is resumed.`,
        forOperators: pause
          ? `${name} is waiting: ${provider} was paused ${formatAgo(pause.sinceMs)} by ${pause.actor}: ${pause.reason}`
          : `${name} is waiting: ${provider} was paused and has been resumed`,
      };
    case 'begun': {
      const notifies = providerDefinitions.get(provider)?.traits.notifies === true;
      const sentAtMs = Math.max(call.begunAtMs, call.unacceptedSubmits.at(-1)?.failedAtMs ?? 0);
      const outcomeUnknown = notifies && Date.now() - sentAtMs > confirmationMs;
      return {
        outcomeUnknown,
        forCallers: outcomeUnknown ? unconfirmed : working,
        forOperators: `${name}: the submit to ${provider} began ${begunAgo}`,
      };
    }
    case 'unknown':
      return {
        outcomeUnknown: true,
        forCallers: unconfirmed,
        forOperators: `${name} has an unknown outcome: the submit to ${provider} ${begunAgo} ended without a request id or a stored result`,
      };
    case 'not_accepted':
      return {
        outcomeUnknown: false,
        forCallers: `${provider} did not accept the ${part} ${attempts === 1 ? 'once' : `${attempts} times`}; it is sent again.`,
        forOperators: `${name} was not accepted by ${provider} ${updatedAgo} and will be sent again`,
      };
    case 'accepted':
      return {
        outcomeUnknown: verifying,
        forCallers: verifying
          ? `${provider} has not reported the result${ofStep}. It is not sent again.`
          : working,
        forOperators: verifying
          ? `${name} has an unknown outcome: ${provider}${requestId} has not reported it; last checked ${updatedAgo}`
          : `${name} was submitted to ${provider}${requestId} ${begunAgo}; its result is not stored`,
      };
    case 'answered':
      return {
        outcomeUnknown: false,
        forCallers: 'The result is being stored.',
        forOperators: `${name}: the result is stored`,
      };
    default:
      return call.state satisfies never;
  }
}
