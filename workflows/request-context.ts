/**
 * Passes the request context, and the trace of the last signal, from the workflow to the activities
 * and child workflows that it schedules. The context does not change commands, so a history replays
 * in the same way without it.
 */
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow';
import { requestContextHeader, signalContextHeader } from '../domain/request-context.ts';

type Interceptors = ReturnType<WorkflowInterceptorsFactory>;
type Inbound = NonNullable<Interceptors['inbound']>[number];
type Outbound = NonNullable<Interceptors['outbound']>[number];
type Header = Parameters<NonNullable<Inbound['execute']>>[0]['headers'];

/** Export that the SDK finds in the bundle by this name. */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let kept: Header = {};
  const inbound: Inbound = {
    execute(input, next) {
      const header = input.headers[requestContextHeader];
      if (header) kept = { ...kept, [requestContextHeader]: header };
      return next(input);
    },
    handleSignal(input, next) {
      const header = input.headers[signalContextHeader];
      if (header) kept = { ...kept, [signalContextHeader]: header };
      return next(input);
    },
  };
  const outbound: Outbound = {
    scheduleActivity: (input, next) => next({ ...input, headers: { ...input.headers, ...kept } }),
    scheduleLocalActivity: (input, next) =>
      next({ ...input, headers: { ...input.headers, ...kept } }),
    startChildWorkflowExecution: (input, next) =>
      next({ ...input, headers: { ...input.headers, ...kept } }),
  };
  return { inbound: [inbound], outbound: [outbound] };
};
