/** The ids and the span under which an activity runs, from its own info and the header of its workflow. */
import type { Context } from '@temporalio/activity';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { isId } from '../domain/ids.ts';
import { withCorrelation } from '../platform/correlation.ts';
import { contextOf } from '../platform/temporal.ts';
import type { Tracing } from '../platform/telemetry.ts';

/** Makes the interceptor of every activity. */
export function activityContext(tracing: Tracing): ActivityInterceptorsFactory {
  return (context) => ({
    inbound: {
      execute(input, next) {
        const { requestId, traceparent } = contextOf(input.headers);
        const ids = { ...(requestId !== undefined && { requestId }), ...idsOf(context) };
        return withCorrelation(ids, () =>
          inSpan(tracing, { context, traceparent }, () => next(input)),
        );
      },
    },
  });
}

/** The workflow of a job has the job's id; one that belongs to it begins with it (jobs/contract.ts). */
function idsOf({ info }: Context): { jobId?: string; workflowId?: string } {
  const workflowId = info.workflowExecution?.workflowId;
  if (workflowId === undefined) return {};
  const [jobId = ''] = workflowId.split('-', 1);
  return { ...(isId('job', jobId) && { jobId }), workflowId };
}

function inSpan(
  tracing: Tracing,
  from: { context: Context; traceparent: string | undefined },
  run: () => Promise<unknown>,
): Promise<unknown> {
  const { info } = from.context;
  return tracing.inSpan(
    {
      name: `activity ${info.activityType}`,
      kind: 'consumer',
      traceparent: from.traceparent,
      attributes: {
        'workflow.id': info.workflowExecution?.workflowId ?? '',
        'workflow.type': info.workflowType ?? '',
        'activity.attempt': info.attempt,
      },
    },
    run,
  );
}
