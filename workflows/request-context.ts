/**
 * Passes the request's context on from the workflow to what it schedules. It neither reads nor makes
 * anything, so a history records and replays the same with and without it.
 */
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow';
import { requestContextHeader } from '../domain/request-context.ts';

type Interceptors = ReturnType<WorkflowInterceptorsFactory>;
type Inbound = NonNullable<Interceptors['inbound']>[number];
type Outbound = NonNullable<Interceptors['outbound']>[number];
type Header = Parameters<NonNullable<Inbound['execute']>>[0]['headers'];

/** Found by the bundle under this name. */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let kept: Header = {};
  const inbound: Inbound = {
    execute(input, next) {
      const header = input.headers[requestContextHeader];
      if (header) kept = { [requestContextHeader]: header };
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
